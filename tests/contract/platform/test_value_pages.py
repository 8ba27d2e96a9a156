"""What a dataset's page shows per key: a chart, pages of a table, and files; each to whom the dataset is visible."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from research.releases import Release
from saibot.platform import Settings
from saibot.privacy import Budget
from saibot.privatize import Card
from saibot.privatize.noise import OpenDPNoise
from saibot.sketch import KeyDomain, Sketch, write_sketch
from tests.support.serving import signed_in

KEYS = ["=SUM(B1)", *(f"shop {i:03d}" for i in range(1, 120))]
DOMAIN = KeyDomain.of("shops", KEYS)
FEATURES = {"@profit": {"bounds": [0, 200], "unit": "euro"}, "visits": {"bounds": [0, 10]}}


def sketch(name: str) -> Sketch:
    rng = np.random.default_rng(7)
    place = rng.integers(0, len(KEYS), 20_000)
    level = np.linspace(20, 180, len(KEYS))
    rows = np.column_stack([level[place] + rng.normal(0, 5, len(place)), rng.uniform(0, 10, len(place))])
    card = Card.parse({"dataset": {"name": name}, "features": FEATURES})
    return Release(card, rows, place, DOMAIN, Budget("8", "1e-6")).sketch(OpenDPNoise())


@pytest.fixture(scope="module")
def server(start_in_process: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    settings = Settings(data=tmp_path_factory.mktemp("values") / "data", workers=1, log_level="error")
    for server in start_in_process(settings):
        owner = server.account("provider")
        headers = {"Content-Type": "application/octet-stream"}
        server.ids = {}
        for visibility in ("public", "restricted"):
            content = write_sketch(sketch(f"{visibility}-shops"))
            answer = owner.post("/v1/datasets", content=content, headers=headers, params={"visibility": visibility})
            server.ids[visibility] = answer.json()["id"]
        yield server


def page(server: Any, query: str = "") -> str:
    answer = server.client().get(f"/datasets/{server.ids['public']}{query}")
    assert answer.status_code == 200
    return str(answer.text)


def shown(text: str) -> list[list[str]]:
    (body,) = re.findall(r'aria-label="Table of values by key".*?<tbody>(.*?)</tbody>', text, flags=re.DOTALL)
    lines = re.findall(r"<tr[^>]*>(.*?)</tr>", body, flags=re.DOTALL)
    return [[html.unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line)] for line in lines]


def test_the_page_itself_holds_the_first_keys_and_links_lead_to_the_others(server: Any) -> None:
    first = page(server)
    rows = shown(first)
    assert len(rows) == 50 and rows[0][0] == "=SUM(B1)" and rows[1][0] == "shop 001"
    after = re.search(r'href="([^"]+)">Next keys', first)
    assert after is not None
    path = html.unescape(after[1]).partition("?")[2].partition("#")[0]
    assert shown(page(server, f"?{path}"))[0][0] == "shop 050"
    assert len(shown(page(server, "?start=100"))) == 20


def test_keys_are_sorted_and_narrowed_without_script(server: Any) -> None:
    largest = [float(row[1].replace(",", "")) for row in shown(page(server, "?sort=value&down=1"))]
    # Each is rounded to the digits that its own error leaves, so that neighbours may look turned round by as much.
    assert all(before >= after - 0.1 for before, after in pairwise(largest)) and largest[0] > largest[-1] + 20
    assert [row[0] for row in shown(page(server, "?keys=shop+01"))] == [f"shop 01{i}" for i in range(10)]
    assert shown(page(server, "?keys=nothing")) == []
    assert 'aria-sort="descending"' in page(server, "?sort=rows&down=1")


def test_another_feature_is_picked_by_a_link(server: Any) -> None:
    values = [float(row[1]) for row in shown(page(server, "?feature=visits"))]
    assert 4 < np.mean(values) < 6
    answer = server.client().get(f"/datasets/{server.ids['public']}/charts", params={"feature": "visits"}).json()
    spec = answer["charts"]["values-chart"]
    assert answer["says_little"] in (True, False) and len(spec["data"]["values"]) == 30, "the keys that stand out"


def test_rows_are_fetched_by_the_piece(server: Any) -> None:
    found = server.client().get(f"/datasets/{server.ids['public']}/rows", params={"start": "110"}).json()
    assert found["total"] == 120 and len(found["rows"]) == 10 and found["rows"][-1][0] == "shop 119"
    wrong = server.client().get(f"/datasets/{server.ids['public']}/rows", params={"start": "-1", "sort": "drop table"})
    assert wrong.json()["start"] == 0 and wrong.json()["rows"][0][0] == "=SUM(B1)"


def test_the_files_hold_every_key_and_feature_and_no_formula(server: Any) -> None:
    fetched = {
        kind: server.client().get(f"/datasets/{server.ids['public']}/values.{kind}") for kind in ("csv", "arrow", "json")
    }
    assert {answer.status_code for answer in fetched.values()} == {200}
    lines = list(csv.reader(io.StringIO(fetched["csv"].content.decode("utf-8-sig"))))
    assert lines[0] == ["shops", "rows", "'@profit", "'@profit error", "visits", "visits error"]
    assert lines[1][0] == "'=SUM(B1)" and len(lines) == 121
    table = pa.ipc.open_file(pa.BufferReader(fetched["arrow"].content)).read_all().to_pandas()
    again = pd.DataFrame(json.loads(fetched["json"].content))
    assert list(table["shops"]) == KEYS and np.allclose(table["@profit"], again["@profit"])
    level = np.linspace(20, 180, len(KEYS))
    assert np.corrcoef(table["@profit"], level)[0, 1] > 0.99
    assert (np.abs(table["@profit"] - level) < 5 * table["@profit error"]).mean() > 0.95
    assert table["rows"].sum() == pytest.approx(20_000, rel=0.02)
    assert server.client().get(f"/datasets/{server.ids['public']}/values.xlsx").status_code == 404


@pytest.mark.parametrize("path", ["rows", "charts", "values.csv", "values.arrow", "values.json"])
def test_a_restricted_dataset_shows_its_values_to_those_alone_who_may_see_it(server: Any, path: str) -> None:
    address = f"/datasets/{server.ids['restricted']}/{path}"
    assert server.client().get(address).status_code == 404
    client = server.client()
    client.cookies.set("saibot_session", signed_in(client, server.account("requester").headers["Authorization"].split()[1]))
    assert client.get(address).status_code == 200
