"""Enquiries by Python and by command: nothing leaves without the requester's word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from saibot.cli.app import app
from saibot.client import Enquiries, NotFound, Platform, PlatformError
from saibot.embedded import embedded
from saibot.errors import InvalidInput
from saibot.platform import Settings

GOLDEN = Path(__file__).parents[3] / "contract" / "golden" / "lookup-levels.saibot"


@pytest.fixture
def people(tmp_path: Path) -> Iterator[tuple[Platform, Platform, str]]:
    """A provider, a requester, and the id of a published dataset."""
    with embedded(Settings(data=tmp_path / "platform", accept_unsafe=True, log_level="error")) as platform:
        provider, requester = (platform.as_account(role, [role]) for role in ("provider", "requester"))
        sent = provider.wire.json(
            "POST",
            "/v1/datasets",
            content=GOLDEN.read_bytes(),
            headers={"Content-Type": "application/octet-stream"},
        )
        yield provider, requester, sent["id"]


def typed(monkeypatch: pytest.MonkeyPatch, platform: Platform, *words: str) -> tuple[str, BaseException | None]:
    """What a command prints, and the error that it ends with."""
    monkeypatch.setattr("saibot.client.connect", lambda address, typed=True: platform)
    done = CliRunner().invoke(app, list(words))
    return done.output, done.exception


def test_python_asks_for_the_requesters_word_and_both_sides_go_on_from_there(people: tuple[Platform, Platform, str]) -> None:
    provider, requester, dataset = people
    theirs, mine = Enquiries(provider), Enquiries(requester)
    with pytest.raises(InvalidInput, match="tells the provider who you are"):
        mine.ask(dataset, why="beds")
    assert list(theirs.list()) == []
    sent = mine.ask(dataset, why="beds", columns=["age"], keys=["ward"], epsilon=2, yes=True)
    assert (sent.columns, sent.keys, str(sent.budget)) == (("age",), ("ward",), "ε=2, δ=1e-6")
    assert [one.id for one in theirs.list("received", open_only=True)] == [sent.id]
    assert theirs.grant(sent.id, dataset, "as it is").granted == dataset
    assert mine.show(sent.id).answer == "as it is" and [one.account for one in theirs.grants(dataset)] == ["requester"]
    theirs.take(dataset, "requester")
    with pytest.raises(PlatformError, match="no account of this name has a token"):
        theirs.give(dataset, "somebody")
    with pytest.raises(NotFound):
        theirs.take(dataset, "requester")
    second = mine.ask(dataset, why="more", yes=True)
    assert theirs.refuse(second.id, "no").status == "refused"
    with pytest.raises(PlatformError, match="is answered"):
        theirs.grant(second.id, dataset)
    mine.remove(second.id)
    assert [one.id for one in mine.list("asked")] == [sent.id]


def test_the_command_says_what_it_tells_and_sends_nothing_without_a_yes(
    people: tuple[Platform, Platform, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, requester, dataset = people
    told, problem = typed(monkeypatch, requester, "enquiries", "ask", dataset, "--why", "beds")
    assert isinstance(problem, InvalidInput) and "what a search on your own machine has found" in problem.message
    assert list(Enquiries(provider).list()) == []
    told, problem = typed(monkeypatch, requester, "enquiries", "ask", dataset, "--why", "beds", "--yes", "--json")
    assert problem is None, told
    id = json.loads(told)["id"]
    assert "to provider" in typed(monkeypatch, requester, "enquiries", "list")[0]
    assert (
        "from requester" in (listed := typed(monkeypatch, provider, "enquiries", "list", "--received", "--open")[0])
        and id in listed
    )
    shown = typed(monkeypatch, provider, "enquiries", "show", id)[0]
    assert "why:\n  beds" in shown and f"saibot enquiries grant {id}" in shown
    assert "granted" in typed(monkeypatch, provider, "enquiries", "grant", id, "--dataset", dataset)[0]
    assert f"saibot datasets {dataset}" in typed(monkeypatch, requester, "enquiries", "show", id)[0]
    assert "requester" in typed(monkeypatch, provider, "grants", "list", dataset)[0]
    assert "no longer" in typed(monkeypatch, provider, "grants", "take", dataset, "requester")[0]
    assert "granted" in typed(monkeypatch, provider, "grants", "give", dataset, "requester")[0]
    assert "removed" in typed(monkeypatch, requester, "enquiries", "remove", id)[0]
    second = json.loads(typed(monkeypatch, requester, "enquiries", "ask", dataset, "--why", "x", "--yes", "--json")[0])["id"]
    assert "refused" in typed(monkeypatch, provider, "enquiries", "refuse", second, "--reason", "no")[0]
