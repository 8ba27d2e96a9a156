"""A ranking is one entry: whoever enters one finds it in flags, HTTP interface, page and search."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import typer
from typer.testing import CliRunner

from saibot.cli import search as command
from saibot.client.in_process import running
from saibot.errors import InvalidInput
from saibot.platform import Settings
from saibot.platform.api.app import app_of
from saibot.platform.service import open_platform
from saibot.search import SearchOptions, search
from saibot.search.rankings import RANKINGS, Ordered, ranking_named
from saibot.wire import Question, Ranking
from saibot.wire.rankings import register
from tests.support.serving import ADMIN

from .test_search import DOMAIN, ask, world


def worst_first(engine, options):
    usable = RANKINGS["usable"].order(engine, options)

    def order(state, most, levels):
        ordered = usable(state, len(engine), levels)
        return Ordered(ordered.best, ordered.first[::-1][:most])

    return order


@pytest.fixture
def worst() -> Iterator[Ranking]:
    yield register(Ranking("worst", "what nobody would want", worst_first, first="the least useful"))
    del RANKINGS["worst"]


def test_candidates_come_in_its_order(worst, exact_corpus):
    moments, values, names = world(0)
    corpus = exact_corpus(DOMAIN, values, names)
    usable, found = (
        search(ask(moments), corpus, SearchOptions(engine="threads", rank=rank)) for rank in ("usable", "worst")
    )
    assert [one.identity for one in found.ranked] == [one.identity for one in usable.ranked][::-1]
    assert found.rank == "worst"


def help_of_the_command() -> str:
    app = typer.Typer()
    command.add_to(app)
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "300", "TERM": "dumb"}).stdout
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", shown).split())


def test_the_flag_offers_it(worst):
    assert "usable|potential|expected|worst" in help_of_the_command()
    assert "worst: what nobody would want" in help_of_the_command()
    RANKINGS.pop("worst")
    try:
        assert "worst" not in help_of_the_command()
    finally:
        RANKINGS["worst"] = worst


def test_the_http_interface_and_the_page_offer_it(worst, tmp_path: Path):
    platform = open_platform(Settings(data=tmp_path / "data", log_level="error"))
    token = platform.accounts.create(ADMIN, "ana", ["requester"]).token
    with (
        running(app_of(platform)) as transport,
        httpx.Client(transport=transport, base_url="http://platform.example") as browser,
    ):
        rank = browser.get("/openapi.json").json()["components"]["schemas"]["Question"]["properties"]["rank"]
        assert rank["enum"] == ["usable", "potential", "expected", "worst"] and worst.sentence in rank["description"]
        code = re.search(r'name="csrf" value="([0-9a-f]+)"', browser.get("/sign-in").text)
        assert code is not None
        browser.post("/sign-in", data={"csrf": code[1], "token": token, "next": "/ask"})
        page = browser.get("/ask").text
        assert '<option value="worst">worst gain: what nobody would want</option>' in page
        assert '<option value="expected" selected>' in page


def test_options_take_it_while_it_is_there():
    with pytest.raises(InvalidInput, match="usable, potential or expected gain, not by 'worst'"):
        Question(target="sales", rank="worst")
    register(Ranking("worst", "what nobody would want", worst_first))
    try:
        asked = SearchOptions(rank="worst")
    finally:
        del RANKINGS["worst"]
    with pytest.raises(InvalidInput, match="no ranking 'worst'"):
        ranking_named(asked.rank)


def test_a_name_is_given_once():
    with pytest.raises(ValueError, match="already"):
        register(RANKINGS["usable"])
