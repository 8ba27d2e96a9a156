"""The page of a result: what it lets one explore, and two results side by side, each its requester's alone."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from saibot.platform import Settings
from tests.support.serving import signed_in

Bytes = dict[str, bytes]


@pytest.fixture(scope="module")
def server(start_in_process: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from start_in_process(Settings(data=tmp_path_factory.mktemp("results") / "data", workers=1, log_level="error"))


@pytest.fixture(scope="module")
def asked(server: Any, module_sketches: Bytes, verbs: Any) -> dict[str, Any]:
    """A requester with two results and one search that another asked."""
    provider = server.account("provider")
    for name in ("good", "useless"):
        assert verbs.publish(provider, module_sketches[name]).status_code == 201
    mine, other = server.account("requester"), server.account("requester")
    ids = []
    for who, options in ((mine, {"steps": 2}), (mine, {"steps": 1, "unions": False}), (other, {"steps": 1})):
        id = verbs.ask(who, module_sketches["train"], module_sketches["test"], **options).json()["id"]
        assert verbs.wait(who, id)["status"] == "done"
        ids.append(id)
    return {"ids": ids, "mine": page_client(server, mine), "other": page_client(server, other)}


def page_client(server: Any, account: Any) -> httpx.Client:
    client: httpx.Client = server.client()
    token = account.headers["Authorization"].removeprefix("Bearer ")
    client.cookies.set("saibot_session", signed_in(client, token))
    return client


def text(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", answer.text)).split())


def test_a_result_shows_what_a_platform_can_know_and_says_what_it_cannot(asked: dict[str, Any]) -> None:
    answer = asked["mine"].get(f"/searches/{asked['ids'][0]}")
    words = text(answer)
    for chart in ("effects-chart", "left-chart-0", "budgets-chart"):
        assert f'id="{chart}"' in answer.text
    assert "a platform has none: it knows your request by its noisy sums alone" in words
    assert "saibot report RESULT.json --table MINE.csv --out report.html" in words
    assert "means are drawn to 0 as far as they are noise" in words and "What if ε were 3?" in words


def test_another_budget_is_asked_about_by_a_link(asked: dict[str, Any]) -> None:
    address = f"/searches/{asked['ids'][0]}"
    page = asked["mine"].get(f"{address}?epsilon=10")
    assert "What if ε were 10?" in text(page) and f'href="{address}?epsilon=0.5#budgets"' in page.text
    for strange in ("-1", "nan", "inf", "1e999", "drop table", ""):
        assert "What if ε were 3?" in text(asked["mine"].get(address, params={"epsilon": strange}))


def test_what_is_left_by_key_can_be_taken_along(asked: dict[str, Any]) -> None:
    answer = asked["mine"].get(f"/searches/{asked['ids'][0]}/residuals.csv")
    lines = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
    assert len(lines) > 20 and {line["part"] for line in lines} == {"shop"}
    assert all(float(line["after error"]) > 0 for line in lines)
    assert "attachment" in answer.headers["content-disposition"] and answer.headers["cache-control"] == "no-store"


def test_two_results_are_compared_and_a_form_leads_there(asked: dict[str, Any]) -> None:
    first, second, _ = asked["ids"]
    page = asked["mine"].get(f"/searches/{first}")
    assert f'<option value="{second}">' in page.text and f'<option value="{first}">' not in page.text
    there = asked["mine"].get(f"/searches/{first}/compare", params={"with": second}, follow_redirects=False)
    assert there.status_code == 303 and there.headers["location"] == f"/searches/{first}/compare/{second}"
    words = text(asked["mine"].get(there.headers["location"]))
    assert "Two searches side by side" in words and "whose intervals do not meet" in words
    for kind, begins in (("html", "<!doctype html>"), ("csv", "\ufeffcandidate,joined_on")):
        taken = asked["mine"].get(f"/searches/{first}/compare/{second}/comparison.{kind}")
        assert taken.status_code == 200 and taken.content.decode().startswith(begins)
    assert asked["mine"].get(f"/searches/{first}/compare/{second}/comparison.exe").status_code == 404


def test_the_list_of_searches_says_what_each_was_asked_with_and_what_it_found(asked: dict[str, Any]) -> None:
    words = text(asked["mine"].get("/searches"))
    assert words.count("by shop · with price") == 2 and len(re.findall(r"\d\.\d{3} → \d\.\d{3}", words)) == 2
    assert (
        f'<option value="{asked["ids"][1]}">sales by shop · with' in asked["mine"].get(f"/searches/{asked['ids'][0]}").text
    )


@pytest.mark.parametrize("place", ["", "/residuals.csv", "/compare/{}", "/compare/{}/comparison.html"])
def test_a_result_is_nobodys_but_its_requesters(asked: dict[str, Any], place: str, server: Any) -> None:
    mine, _, others = asked["ids"]
    path = f"/searches/{others}" + place.format(mine)
    assert asked["mine"].get(path).status_code == 404
    if "{}" in place:  # one's own beside another's is no way in either
        assert asked["mine"].get(f"/searches/{mine}" + place.format(others)).status_code == 404
    assert server.client().get(path, follow_redirects=False).status_code == 303, "who is not signed in is asked to"
    chosen = asked["mine"].get(f"/searches/{mine}/compare", params={"with": others}, follow_redirects=False)
    assert chosen.status_code == 404
