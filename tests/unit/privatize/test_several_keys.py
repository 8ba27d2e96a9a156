"""One release by several keys: one charge, one plan that divides it, and all sketches or none."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from saibot.cli.app import app
from saibot.client import Provider
from saibot.errors import BudgetExceeded, InvalidCard, InvalidInput, SaibotError
from saibot.privacy import Budget, Neighbours, Spent
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, Released, ReleaseRequest, dry_run_by_keys, privatize_by_keys
from saibot.privatize.charging import sketch_path
from saibot.privatize.noise import NoiseSource, OpenDPNoise

BUDGET = Budget("1", "1e-6")
KEYS = {
    "ward": {"domain": {"range": [1, 12], "of": "ward"}},
    "day": {"domain": {"dates": ["2024-01-01", "2024-12-31"]}, "levels": ["month"]},
    "both": {"parts": ["ward", "sex"]},
    "sex": {"domain": {"values": ["f", "m"], "id": "sex"}},
}


def card(**sections: Any) -> dict[str, Any]:
    features = {"x": {"bounds": [0, 10]}, "y": {"bounds": [-1, 1]}}
    cap = {"cap": {"epsilon": "1", "delta": "1e-6"}}
    return {"dataset": {"name": "t"}, "budget": cap, "features": features, "keys": KEYS} | sections


def table(rows: int = 8000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 366, rows), "D")
    frame = {"ward": rng.integers(1, 13, rows), "day": days.strftime("%Y-%m-%d"), "sex": rng.choice(["f", "m"], rows)}
    return pd.DataFrame(frame | {"x": rng.uniform(0, 10, rows), "y": rng.uniform(-1, 1, rows)})


def request(document: dict[str, Any] | None = None, **options: Any) -> ReleaseRequest:
    terms = {"budget": BUDGET, "neighbours": Neighbours.REPLACE_ONE, "allocation": "equal"} | options
    return ReleaseRequest(Card.parse(document or card()), **terms)


def released(
    ledger: Ledger, keys: list[str], document: dict[str, Any] | None = None, **options: Any
) -> tuple[Released, ...]:
    noise = options.pop("noise", None)
    return privatize_by_keys(table(), request(document, **options), keys, ledger, noise=noise)


def test_one_charge_buys_a_sketch_by_each_key(ledger: Ledger) -> None:
    ward, day, both = released(ledger, ["ward", "day", "both"])
    account = ledger.account("t")
    assert account is not None and len(account.entries) == 1 and 0.999 < account.spent_epsilon <= 1
    assert [one.sketch.header.key.name for one in (ward, day, both)] == ["ward", "day", "both"]  # type: ignore[union-attr]
    assert len(day.sketch.levels) == 2 and len(both.sketch.levels[0].values) == 25
    assert Spent.of(ward.entry.events).within(BUDGET) and not Spent.of(ward.entry.events).within(Budget("0.99", "1e-6"))
    plans = [one.sketch.header.read_plan() for one in (ward, day, both)]  # each proves its own noise
    assert Decimal("0.999") < sum(plan.request.share for plan in plans) <= 1
    assert len({plan.touched for plan in plans}) == 1, "each knows what the others touch"
    assert {one.entry.number for one in (ward, day, both)} == {1}
    assert "released in one go with the keys day, both" in ward.sketch.header.preparation.steps[-1]
    assert ward.sketch.header.spent == day.sketch.header.spent and ward.sketch.header.preparation.kind == "public"


def test_finer_keys_get_more_of_the_budget_and_none_is_left_without(ledger: Ledger) -> None:
    found = dry_run_by_keys(table(), request(), ["ward", "day"], ledger)
    ward, day = (float(part.plan.request.share) for part in found.parts)
    assert 0.25 < ward < day < 0.75
    assert found.to_json()["events"] and not found.repeated and ledger.accounts() == []


def test_the_statistics_are_those_of_the_rows(ledger: Ledger, no_noise: NoiseSource) -> None:
    rows = table()
    ward, sex = released(ledger, ["ward", "sex"], noise=no_noise)
    assert np.allclose(ward.sketch.levels[0].values[:12, 0], rows.ward.value_counts().sort_index())
    assert np.allclose(sex.sketch.levels[0].values[:2, 0], rows.sex.value_counts().sort_index())


def test_the_same_again_is_the_same_and_costs_nothing(ledger: Ledger) -> None:
    first, second = (released(ledger, ["ward", "sex"]) for _ in range(2))
    assert [one.content for one in first] == [one.content for one in second] and all(one.repeated for one in second)
    with pytest.raises(BudgetExceeded):
        released(ledger, ["sex", "ward", "day"])
    assert dry_run_by_keys(table(), request(), ["ward", "sex"], ledger).repeated


def test_where_a_sketch_was_lost_nothing_is_handed_out(ledger: Ledger) -> None:
    document = card(budget={"cap": {"epsilon": "3", "delta": "1e-6"}})
    first = released(ledger, ["ward", "sex"], document)
    sketch_path(ledger, first[1].sketch.digest).unlink()
    assert not any(one.repeated for one in released(ledger, ["ward", "sex"], document))


def test_what_is_bought_is_bought_once(ledger: Ledger) -> None:
    features = {"x": {"bounds": {"buy": "0.1"}}, "y": {"bounds": [-1, 1]}}
    document = card(features=features, component={"of": ["x", "y"], "buy": "0.2", "keep": 2})
    ward, day = released(ledger, ["ward", "day"], document)
    assert [event.to_json()["kind"] for event in ward.entry.events] == ["choice", "gaussian", "gaussian", "gaussian"]
    assert ward.sketch.header.features == day.sketch.header.features
    assert Spent.of(ward.entry.events).within(BUDGET) and len(ward.sketch.header.preparation.steps) == 3


def test_several_lists_of_keys_are_found_in_one_release(ledger: Ledger) -> None:
    keys = KEYS | {"ward": {"domain": {"find": "ward"}}, "sex": {"domain": {"find": "sex"}}}
    ward, sex, day = released(ledger, ["ward", "sex", "day"], card(keys=keys))
    kinds = [event.to_json()["kind"] for event in ward.entry.events]
    assert kinds == ["keys", "keys", "gaussian", "gaussian", "gaussian"] and Spent.of(ward.entry.events).within(BUDGET)
    assert [len(one.sketch.levels[0].values) for one in (ward, sex, day)] == [13, 3, 367]
    assert Spent.of(ward.entry.events).delta <= Decimal("9.5e-8")
    assert day.sketch.header.assumptions.key_domain_public and not sex.sketch.header.assumptions.key_domain_public


def test_pure_budgets_are_divided_too(ledger: Ledger) -> None:
    document = card(budget={"cap": {"epsilon": "1"}})
    ward, sex = released(ledger, ["ward", "sex"], document, budget=Budget("1"))
    assert Spent.of(ward.entry.events).pure_epsilon <= 1 and all(one.sketch.header.read_plan() for one in (ward, sex))


class Interrupted(OpenDPNoise):
    """Noise that ends with the first sketch."""

    def __init__(self) -> None:
        self.draws = 0

    def gaussian(self, values: np.ndarray, scale: float, done: Any) -> np.ndarray:
        self.draws += 1
        if self.draws > 1:
            raise SaibotError("the machine stopped.")
        return super().gaussian(values, scale, done)


def test_a_release_that_is_cut_short_leaves_a_charge_and_no_sketch(ledger: Ledger) -> None:
    with pytest.raises(SaibotError, match="the machine stopped"):
        released(ledger, ["ward", "sex"], noise=Interrupted())
    account = ledger.account("t")
    assert account is not None and [entry.digest for entry in account.entries] == [None]
    assert not (ledger.home / "sketches").exists()


def test_what_cannot_be_a_release_by_keys_is_refused_before_the_charge(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="each of them once"):
        released(ledger, ["ward", "ward"])
    with pytest.raises(InvalidInput, match="each of them once"):
        privatize_by_keys(table(), request(key="ward"), ["day"], ledger)
    with pytest.raises(InvalidCard, match="no key 'town'"):
        released(ledger, ["ward", "town"])
    assert ledger.accounts() == []


# ------------------------------------------------------------------------------------------------ typed, and in Python


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    table(2000).to_csv("stays.csv", index=False)
    Path("stays.toml").write_text(
        '[dataset]\nname = "stays"\nneighbours = "replace-one"\n[features]\nx = { bounds = [0, 10] }\n'
        '[keys.ward]\ndomain = { range = [1, 12], of = "ward" }\n'
        '[keys.sex]\ndomain = { values = ["f", "m"], id = "sex" }\n'
    )
    return tmp_path


def typed(*words: str, fails: bool = False) -> str:
    done = CliRunner().invoke(app, ["privatize", "stays.csv", *words])
    assert (done.exit_code != 0) == fails, done.output
    return done.output + str(done.exception or "")


def test_keys_are_typed_with_commas_and_give_a_file_each(desk: Path) -> None:
    assert "by ward, with a share of" in typed("--keys", "ward,sex", "--dry-run")
    told = typed("--keys", "ward, sex")
    assert "wrote stays-ward.saibot" in told and "wrote stays-sex.saibot" in told and told.count("charged stays") == 1
    again = json.loads(typed("--keys", "ward,sex", "--out", "sketches", "--json"))
    assert again["repeated"] and [Path(one["sketch"]).name for one in again["sketches"]] == [
        "stays-ward.saibot",
        "stays-sex.saibot",
    ]
    assert Path("sketches/stays-sex.saibot").read_bytes() == Path("stays-sex.saibot").read_bytes()
    assert "exclude each other" in typed("--keys", "ward,sex", "--key", "ward", fails=True)


def test_where_one_file_cannot_be_written_none_is(desk: Path) -> None:
    Path("stays-sex.saibot").mkdir()
    (Path("stays-sex.saibot") / "in the way").write_text("")
    typed("--keys", "sex,ward", fails=True)
    assert not Path("stays-ward.saibot").exists()


def test_in_python_a_provider_names_the_keys(desk: Path, ledger: Ledger) -> None:
    provider = Provider(None, ledger, note=str)  # type: ignore[arg-type]
    ward, sex = provider.privatize_by_keys("stays.csv", "stays.toml", keys=["ward", "sex"], epsilon="1")
    assert (ward.header.key.name, sex.header.key.name) == ("ward", "sex")  # type: ignore[union-attr]
