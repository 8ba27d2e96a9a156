"""The catalogue has one entry for a table with several keys, and a page for everybody who published one."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from saibot.platform import Settings
from saibot.platform.accounts import NOBODY, Caller
from saibot.platform.catalog import Filter
from saibot.sketch import Sketch, read_sketch, write_sketch

GOLDEN = Path(__file__).parents[1] / "golden"
HEADERS = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def server(start_in_process: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two tables of one provider: the first by two keys, from one account; the second without a key."""
    data = tmp_path_factory.mktemp("catalogue") / "data"
    for server in start_in_process(Settings(data=data, workers=1, accept_unsafe=True, log_level="error")):
        server.owner = server.account("provider", name="harbour")
        base = read_sketch(GOLDEN / "union-laplace.saibot")
        dataset = base.header.dataset.model_copy(update={"name": "fees"})
        fees = Sketch(base.header.model_copy(update={"dataset": dataset}), base.levels).sealed()
        flights = [(GOLDEN / f"{name}.saibot").read_bytes() for name in ("v2-lookup-levels", "v2-semiring-composite")]
        for content in (*flights, write_sketch(fees)):
            assert server.owner.post("/v1/datasets", content=content, headers=HEADERS).status_code == 201
        yield server


def text(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", answer.text)).split())


def entries(answer: httpx.Response) -> list[str]:
    return [part for part in answer.text.split('<div class="by">')[1:]]


def test_a_table_by_two_keys_is_one_entry_that_names_both(server: Any) -> None:
    answer = server.client().get("/")
    assert len(entries(answer)) == 2 and "2 datasets" in text(answer)
    (both,) = [part for part in entries(answer) if "port_weekday" in part]
    assert "day ·" in both
    assert len(server.client().get("/v1/datasets").json()["items"]) == 3, "programs see every sketch"


def test_a_filter_that_fits_one_key_alone_still_finds_the_table(server: Any) -> None:
    catalog = server.app.state.platform.catalog
    listed = server.client().get("/v1/datasets").json()["items"]
    for domain in {part["domain"] for one in listed if one["key"] for part in one["key"]["parts"]}:
        filter = Filter(domain=domain)
        assert len(catalog.list(NOBODY, filter, tables=True).items) == 1 == catalog.tables(NOBODY, filter)


def test_a_key_that_is_hidden_from_somebody_does_not_hide_the_table(server: Any) -> None:
    platform = server.app.state.platform
    provider = Caller("shy", frozenset({"provider"}), "t")
    platform.accept(provider, (GOLDEN / "v2-lookup-levels.saibot").read_bytes())
    newest, _ = platform.accept(provider, (GOLDEN / "v2-semiring-composite.saibot").read_bytes(), visibility="restricted")
    try:
        for caller, keys in ((NOBODY, 1), (Caller("r", frozenset({"requester"}), "t"), 2)):
            (found,) = platform.catalog.list(caller, Filter(provider="shy"), tables=True).items
            assert found.count('"parts"') == keys + 1 and platform.catalog.tables(caller, Filter(provider="shy")) == 1
        assert "port_weekday" not in text(server.client().get("/providers/shy"))
    finally:
        for one in platform.catalog.siblings(Caller("r", frozenset({"requester"}), "t"), "shy", newest.name):
            platform.withdraw(provider, one["id"])


def test_a_provider_has_a_page_with_all_its_tables_and_what_they_cost_together(server: Any) -> None:
    words = text(server.client().get("/providers/harbour"))
    assert "2 tables published here as 3 sketches" in words
    assert "ε 1.46 in all by its provider's ledger" in words and "added up" in words, "1.45468, rounded up"
    listed = server.client().get("/v1/datasets").json()["items"]
    (alone,) = [one for one in listed if one["key"] is None]
    total = 1.45468 + float(alone["budget"]["epsilon"])
    assert f"Spent in total ε {math.ceil(100 * total) / 100:g}" in words
    assert server.client().get("/providers/nobody").status_code == 404


def test_facets_show_eight_and_hold_the_others_behind_more(server: Any) -> None:
    from saibot.platform.pages.views.catalogue import _facets

    features = [{"feature": f"f{i}", "count": 9} for i in range(100)]
    found = {
        "domains": [{"domain": f"d{i}", "count": 20 - i} for i in range(12)],
        "providers": [],
        "features": features,
        "tags": [],
    }
    domain, _, feature, _ = _facets(found, {"domain": "d10", "feature": "F3"})
    names = [[one["name"] for one in domain[part]] for part in ("choices", "more")]
    assert names[0] == ["d10", *(f"d{i}" for i in range(7))] and names[1] == ["d7", "d8", "d9", "d11"]
    assert not domain["cut"] and feature["cut"], "the hundred most common of very many are told to be that"
    assert [(one["name"], one["count"]) for one in feature["choices"][:2]] == [("F3", 9), ("f0", 9)]
    assert len(feature["choices"]) + len(feature["more"]) == 100


def test_a_dataset_tells_its_versions_its_citation_and_its_other_keys(server: Any) -> None:
    listed = server.client().get("/v1/datasets").json()["items"]
    (one,) = [one for one in listed if one["key"] and one["key"]["name"] == "day"]
    answer = server.client().get(f"/datasets/{one['id']}")
    words = text(answer)
    assert "Version 1" in words and "first version: " in words and "@misc{harbour-" in words
    (other,) = [each for each in listed if each["key"] and each["key"]["name"] == "port_weekday"]
    assert f'<a href="/datasets/{other["id"]}">port_weekday</a>' in answer.text
