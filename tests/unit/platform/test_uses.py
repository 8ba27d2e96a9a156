"""Searches are counted by dataset: once each, for good, whatever versions it has."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable

import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError

from saibot.platform import Settings, uses
from saibot.platform.accounts import NOBODY, Caller
from saibot.platform.catalog import Filter
from saibot.platform.jobs.process import Outcome
from saibot.platform.service import Platform
from saibot.wire import Question, Uses
from tests.support.processes import in_a_process

Named = Callable[..., bytes]
ASKER = Caller("asker", frozenset({"requester"}), "t1")
RIVAL = Caller("rival", frozenset({"provider"}), "t2")


def ended(platform: Platform, search: str, *digests: str) -> None:
    with platform.database.write() as connection:
        uses.count(connection, search, digests)


def used(platform: Platform, id: str) -> tuple[int, int]:
    found = platform.searches.uses_of(id)
    return found.total, found.lately


def test_new_versions_go_on_counting_and_a_search_that_took_two_of_them_counts_once(
    platform: Platform, provider: Caller, named: Named
) -> None:
    first = platform.accept(provider, named("x", title="one"))[0]
    ended(platform, "s1", first.digest)
    second = platform.accept(provider, named("x", title="two"))[0]
    ended(platform, "s2", first.digest, second.digest)
    assert used(platform, first.id) == (2, 2)
    with platform.database.write() as connection:
        uses.forget(connection, ["s1", "s2"])
    assert used(platform, first.id) == (2, 0)
    platform.accept(provider, named("x", title="three"))
    assert used(platform, first.id) == (2, 0)


def test_a_copy_has_no_part_in_what_its_original_is_used(platform: Platform, provider: Caller, named: Named) -> None:
    original = platform.accept(provider, named("x"))[0]
    copy = platform.accept(RIVAL, named("x"))[0]
    ended(platform, "s1", original.digest)
    assert copy.digest == original.digest and (used(platform, original.id), used(platform, copy.id)) == ((1, 1), (0, 0))


def test_what_is_withdrawn_begins_anew_and_what_is_not_here_is_not_counted(
    platform: Platform, provider: Caller, named: Named
) -> None:
    first = platform.accept(provider, named("x"))[0]
    ended(platform, "s1", first.digest)
    platform.withdraw(provider, first.id)
    ended(platform, "s2", first.digest)
    again = platform.accept(provider, named("x"))[0]
    assert used(platform, again.id) == used(platform, first.id) == (0, 0)


def test_no_search_is_counted_twice(platform: Platform, provider: Caller, named: Named) -> None:
    dataset = platform.accept(provider, named("x"))[0]
    ended(platform, "s1", dataset.digest)
    with pytest.raises(IntegrityError):
        ended(platform, "s1", dataset.digest)  # the search is written down as counted, so its number is taken back
    assert used(platform, dataset.id) == (1, 1)


def test_the_most_used_come_first(platform: Platform, provider: Caller, named: Named) -> None:
    made = [platform.accept(provider, named(name))[0] for name in "abc"]
    for search, which in (("s1", 1), ("s2", 1), ("s3", 0)):
        ended(platform, search, made[which].digest)
    page = platform.catalog.list(NOBODY, Filter(), sort="used", limit=2)
    rest = platform.catalog.list(NOBODY, Filter(), sort="used", place=page.next, limit=2)
    names = [item[item.index('"name":"') + 8] for item in (*page.items, *rest.items)]
    assert names == ["b", "a", "c"]
    assert platform.show(NOBODY, made[1].id)["uses"] == Uses(total=2, lately=2, days=7).to_json()


def _end_and_die(settings: Settings, id: str, digest: str) -> None:
    """A server that is killed in the transaction that ends a search, when it has been counted."""
    platform = _still(settings)
    _run(platform, id, digest)
    event.listen(platform.database.engine, "commit", lambda connection: os.kill(os.getpid(), signal.SIGKILL))
    platform.searches.end(id, ASKER.name, Outcome("done"), seconds=1)


def _still(settings: Settings) -> Platform:
    """A platform where nothing happens by itself."""
    Platform.start = lambda platform: None  # type: ignore[method-assign]
    return Platform(settings)


def _run(platform: Platform, id: str, digest: str) -> None:
    assert platform.searches.next() is not None
    (platform.searches.request(id) / "result.json").write_text(json.dumps({"steps": [{"digest": digest}]}))


@pytest.mark.fault
def test_a_search_whose_end_was_cut_off_is_counted_when_it_has_ended(
    settings: Settings, provider: Caller, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Platform, "start", Platform.start)  # `_still` replaces it
    platform = _still(settings)
    dataset = platform.accept(provider, named("x"))[0]
    question = Question(target=dataset.features[0].name)
    id = platform.searches.submit(ASKER, named("train"), None, question).id
    platform.close()
    assert in_a_process(_end_and_die, settings, id, dataset.digest) == -signal.SIGKILL
    again = _still(settings)
    assert again.searches.show(ASKER, id).status == "queued" and used(again, dataset.id) == (0, 0)
    _run(again, id, dataset.digest)
    again.searches.end(id, ASKER.name, Outcome("done"), seconds=1)
    assert again.searches.show(ASKER, id).status == "done" and used(again, dataset.id) == (1, 1)
    again.close()
