"""Several servers on one Postgres and one object store are one platform: what one takes in, the other serves."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from saibot.errors import InvalidInput
from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.jobs.process import Outcome
from saibot.platform.searches import Live
from saibot.platform.service import Platform, open_platform
from saibot.platform.storage.tables import datasets, searches, servers
from saibot.search.corpus import Corpus
from saibot.wire import Question, Uses
from tests.support.serving import ADMIN

PROVIDER = Caller("clinic", frozenset({"provider"}), "t-clinic")
ASKER = Caller("asker", frozenset({"requester"}), "t-asker")


@pytest.fixture
def pair(
    postgres: Callable[[], str],
    store: tuple[str, dict[str, bytes]],
    tmp_path: Path,
    fresh: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Platform, Platform]]:
    """Two servers in this process: nothing happens there by itself."""
    monkeypatch.setattr(Platform, "start", lambda platform: None)
    monkeypatch.setattr("saibot.platform.servers.ALIVE_SECONDS", 600.0)  # nobody says so meanwhile
    monkeypatch.setattr("saibot.platform.service.WITHDRAWAL_SECONDS", 60.0)
    database = postgres()
    each = [fresh.model_copy(update={"data": tmp_path / n, "database": database, "files": store[0]}) for n in "ab"]
    opened = [open_platform(settings) for settings in each]
    yield opened[0], opened[1]
    for platform in opened:
        platform.close()


def searched(platform: Platform) -> set[str]:
    return set(Corpus(platform.shards.folder).digests)


def test_what_one_server_packs_the_other_searches_and_what_one_withdraws_the_other_drops(
    pair: tuple[Platform, Platform], store: tuple[str, dict[str, bytes]], sketches: dict[str, bytes]
) -> None:
    one, other = pair
    made = [one.accept(PROVIDER, sketches["good"])[0], other.accept(PROVIDER, sketches["useless"])[0]]
    assert one.shards.catch_up() == 2 and other.shards.catch_up() == 0
    assert searched(one) == searched(other) == {dataset.digest for dataset in made}
    withdrawing = threading.Thread(target=one.withdraw, args=(PROVIDER, made[0].id))
    withdrawing.start()
    withdrawing.join(1)
    assert withdrawing.is_alive()  # it waits until the other has heard of it
    other._follow()
    other._beat()
    withdrawing.join(60)
    assert not withdrawing.is_alive()
    assert searched(one) == searched(other) == {made[1].digest}
    assert not any(made[0].digest in name for name in store[1])
    shards = [name for name in store[1] if name.startswith("saibot/corpus/shards/") and name.endswith(".arrow")]
    kept = [path for platform in pair for path in (platform.shards.folder / "shards").iterdir()]
    assert len(shards) == 1 and len(kept) == 2  # no file of an earlier state is left, there or here


def test_a_server_whose_turn_was_lost_changes_nothing(pair: tuple[Platform, Platform], sketches: dict[str, bytes]) -> None:
    from saibot.platform.shared_shards import TurnLost

    one, other = pair
    one.accept(PROVIDER, sketches["good"])
    assert one.shards._shared is not None
    with one.shards._shared.turn():
        pass  # Postgres was restarted here: another server has a turn meanwhile
    other.shards.catch_up()
    with pytest.raises(TurnLost):
        one.shards._shared.publish()
    assert one.shards.catch_up() == 0 and searched(one) == searched(other) != set()
    assert one.shards.revision == other.shards.revision


def test_two_servers_never_pack_at_once(
    pair: tuple[Platform, Platform], sketches: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    from saibot.platform.packing import Packing

    packing, most = 0, 0
    apply = Packing.apply

    def counted(self: Packing, **words: Any) -> dict[str, Any]:
        nonlocal packing, most
        packing += 1
        most = max(most, packing)
        time.sleep(0.1)
        try:
            return apply(self, **words)
        finally:
            packing -= 1

    monkeypatch.setattr(Packing, "apply", counted)
    for platform, name in zip(pair, ("good", "useless"), strict=True):
        platform.accept(PROVIDER, sketches[name])
    threads = [threading.Thread(target=platform.shards.catch_up) for platform in pair]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1 and len(searched(pair[0]) | searched(pair[1])) == 2


def test_shards_that_are_lost_in_the_store_are_made_anew(
    pair: tuple[Platform, Platform], store: tuple[str, dict[str, bytes]], sketches: dict[str, bytes]
) -> None:
    one, other = pair
    one.accept(PROVIDER, sketches["good"])
    one.shards.catch_up()
    for name in [name for name in store[1] if name.startswith("saibot/corpus/")]:
        del store[1][name]
    other.accept(PROVIDER, sketches["useless"])
    other.shards.catch_up()
    one.shards.catch_up()
    assert len(searched(one)) == 2 and searched(one) == searched(other)


def test_files_that_a_killed_server_left_behind_go_with_the_next_withdrawal_and_with_a_start(
    pair: tuple[Platform, Platform], store: tuple[str, dict[str, bytes]], sketches: dict[str, bytes]
) -> None:
    one, other = pair
    dataset, _ = one.accept(PROVIDER, sketches["good"])
    one.shards.catch_up()
    stray = "saibot/corpus/shards/left-behind.arrow"
    store[1][stray] = b"values of a dataset that was withdrawn"
    other.close()
    again = open_platform(other.settings)
    again.close()
    assert stray not in store[1]
    store[1][stray] = b"values of a dataset that was withdrawn"
    one.withdraw(PROVIDER, dataset.id)
    assert stray not in store[1]


@pytest.mark.parametrize(
    "full, by",
    [
        pytest.param("packing.Packing.apply", 0, id="of the server that packed"),
        pytest.param("shared_shards.SharedShards._fetch", 1, id="of one that did not fetch yet what was packed"),
    ],
)
def test_on_a_full_disk_a_withdrawal_empties_the_shards_of_all_servers(
    pair: tuple[Platform, Platform],
    store: tuple[str, dict[str, bytes]],
    sketches: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    full: str,
    by: int,
) -> None:
    gone = pair[0].accept(PROVIDER, sketches["good"])[0]
    kept = pair[0].accept(PROVIDER, sketches["useless"])[0]
    pair[0].shards.catch_up()
    with pair[0].database.write() as connection:
        connection.execute(datasets.update().where(datasets.c.digest == gone.digest).values(state="leaving"))

    def fail(*_: Any, **__: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    withdrawing, other = pair[by], pair[1 - by]
    with monkeypatch.context() as patched:
        patched.setattr(f"saibot.platform.{full}", fail)
        withdrawing.shards.remove({gone.digest})
    shards = [name for name in store[1] if name.startswith("saibot/corpus/shards/") and name.endswith(".arrow")]
    other.shards.keep_in_step()
    assert searched(withdrawing) == searched(other) == set() and shards == []
    other.shards.catch_up()
    assert searched(other) == {kept.digest}


def test_shards_are_kept_where_only_the_answer_to_their_commit_was_lost(
    pair: tuple[Platform, Platform], sketches: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    made = one.accept(PROVIDER, sketches["good"])[0]
    shared = one.shards._shared
    assert shared is not None
    count = shared._count

    def lose(now: Any) -> None:
        count(now)
        raise OSError("the connection was lost")

    with monkeypatch.context() as patched:
        patched.setattr(shared, "_count", lose)
        with pytest.raises(OSError, match="lost"):
            one.shards.catch_up()
    assert other.shards.keep_in_step() and searched(other) == {made.digest}


def test_twenty_searches_of_one_account_do_not_hold_back_one_of_another_on_either_server(
    pair: tuple[Platform, Platform], sketches: dict[str, bytes]
) -> None:
    one, other = pair
    for _ in range(20):
        one.searches.submit(ASKER, sketches["train"], None, Question(target="sales"))
    late = Caller("late", frozenset({"requester"}), "t-late")
    other.searches.submit(late, sketches["train"], None, Question(target="sales"))
    taken = [platform.searches.next() for platform in (one, other, one)]
    assert [row["account"] for row in taken if row is not None] == ["asker", "late", "asker"]
    assert len({row["id"] for row in taken if row is not None}) == 3


def test_a_search_is_cancelled_and_a_token_revoked_through_another_server(
    pair: tuple[Platform, Platform], sketches: dict[str, bytes]
) -> None:
    one, other = pair
    token = one.accounts.create(ADMIN, ASKER.name, ["requester"])
    asker = other.accounts.caller_of(token.token)
    id = one.searches.submit(asker, sketches["train"], None, Question(target="sales")).id
    assert one.searches.next() is not None
    one.searches.progress(id, "scoring", 0.5)
    one.searches.keep()
    seen = other.searches.show(asker, id)
    assert seen.status == "running" and (seen.progress.stage, seen.progress.part) == ("scoring", 0.5)
    other.searches.cancel(asker, id)
    assert not one.searches.is_cancelled(id)
    one.searches.keep()
    assert one.searches.is_cancelled(id)
    other.accounts.hear_of_revocations()
    one.accounts.revoke(ADMIN, token.id)
    other.accounts.hear_of_revocations()
    assert other.accounts.remembered(token.token) is None


def test_of_two_attempts_the_result_of_the_one_that_has_the_search_counts(
    pair: tuple[Platform, Platform], store: tuple[str, dict[str, bytes]], sketches: dict[str, bytes]
) -> None:
    one, other = pair
    dataset = one.accept(PROVIDER, sketches["good"])[0]
    id = one.searches.submit(ASKER, sketches["train"], None, Question(target="sales")).id
    took = [{"digest": dataset.digest}]
    results = {platform: json.dumps({"steps": took, "of": name}).encode() for platform, name in ((one, "one"), (other, "b"))}
    for platform, result in results.items():
        assert platform.searches.next() is not None
        (platform.searches.request(id) / "result.json").write_bytes(result)
        with one.database.write() as connection:  # as the released version left it, and as a lease that was not renewed
            connection.execute(searches.update().values(until=None))
        if platform is one:
            one.searches.take_back()
            assert one.searches.show(ASKER, id).status == "running"  # it runs here: there is nothing to take up
            other.searches.take_back()
    other.searches.end(id, ASKER.name, Outcome("done"), seconds=1)
    one.searches.end(id, ASKER.name, Outcome("done"), seconds=1)
    other.searches._live[id] = Live("writing", None, 2)  # as if the answer to its commit had been lost
    other.searches.end(id, ASKER.name, Outcome("done"), seconds=1)
    assert one.searches.result(ASKER, id) == other.searches.result(ASKER, id) == results[other]
    assert one.searches.uses_of(dataset.id) == Uses(total=1, lately=1, days=7)
    assert len([name for name in store[1] if id in name and not name.endswith("/")]) == 1
    one.searches.cancel(ASKER, id)
    assert not [name for name in store[1] if id in name and not name.endswith("/")]
    assert other.searches.uses_of(dataset.id) == Uses(total=1, lately=0, days=7), "the result is gone, the number stays"


def test_the_end_of_a_search_gives_way_to_a_publication(pair: tuple[Platform, Platform], sketches: dict[str, bytes]) -> None:
    one, other = pair
    dataset = one.accept(PROVIDER, sketches["good"])[0]
    id = one.searches.submit(ASKER, sketches["train"], None, Question(target="sales")).id
    assert one.searches.next() is not None
    result = json.dumps({"steps": [{"digest": dataset.digest}]}).encode()
    (one.searches.request(id) / "result.json").write_bytes(result)
    with other.database.write() as connection:  # somebody changes the dataset, and is not done
        connection.execute(datasets.update().values(sort_name="x"))
        with pytest.raises(OperationalError, match="lock timeout"):
            one.searches.end(id, ASKER.name, Outcome("done"), seconds=1)
    assert one.searches.show(ASKER, id).status == "running" and one.searches.uses_of(dataset.id).total == 0
    one.searches.end(id, ASKER.name, Outcome("done"), seconds=1)  # what the runner does
    assert one.searches.show(ASKER, id).status == "done" and one.searches.uses_of(dataset.id).total == 1


def test_a_search_that_was_cancelled_is_not_begun_again_when_its_server_stops(
    pair: tuple[Platform, Platform], store: tuple[str, dict[str, bytes]], sketches: dict[str, bytes]
) -> None:
    one, other = pair
    id = one.searches.submit(ASKER, sketches["train"], None, Question(target="sales")).id
    assert one.searches.next() is not None
    other.searches.cancel(ASKER, id)
    one.searches.put_back(id)
    assert other.searches.show(ASKER, id).status == "cancelled" and other.searches.next() is None
    assert not [name for name in store[1] if id in name and not name.endswith("/")]


def test_a_search_whose_result_is_missing_has_failed(pair: tuple[Platform, Platform], sketches: dict[str, bytes]) -> None:
    one, _ = pair
    id = one.searches.submit(ASKER, sketches["train"], None, Question(target="sales")).id
    assert one.searches.next() is not None
    one.searches.end(id, ASKER.name, Outcome("done"), seconds=1)
    found = one.searches.show(ASKER, id)
    assert found.status == "failed" and found.error is not None and "without a result" in found.error.message


def test_a_session_that_one_server_opened_is_open_on_the_other(pair: tuple[Platform, Platform]) -> None:
    one, other = pair
    token = one.accounts.create(ADMIN, "somebody", ["requester"]).token
    session = one.accounts.open_session(token)
    assert other.accounts.caller_of_session(session).name == "somebody"
    other.accounts.close_session(session)
    with pytest.raises(Exception, match="session has ended"):
        one.accounts.caller_of_session(session)


def test_a_server_with_files_of_its_own_does_not_join_others(
    pair: tuple[Platform, Platform], tmp_path: Path, fresh: Settings
) -> None:
    database = pair[0].settings.database
    changes = {"data": tmp_path / "c", "database": database}
    with pytest.raises(InvalidInput, match="another platform is using this database"):
        open_platform(fresh.model_copy(update=changes))
    with pytest.raises(InvalidInput, match="keeps its files elsewhere"):
        open_platform(fresh.model_copy(update=changes | {"files": str(tmp_path / "elsewhere")}))


def test_a_server_on_a_copy_of_anothers_folder_is_a_server_of_its_own(
    pair: tuple[Platform, Platform], tmp_path: Path, fresh: Settings
) -> None:
    one, _ = pair
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "server").write_text(one.servers.id)
    copy = open_platform(one.settings.model_copy(update={"data": tmp_path / "copy"}))
    assert copy.servers.id != one.servers.id and copy.servers.others() == 2
    copy.close()
    kept = one.servers.id
    one.close()
    again = open_platform(one.settings)
    assert again.servers.id == kept
    again.close()


def test_a_server_that_was_forgotten_is_known_again_with_its_mark(
    pair: tuple[Platform, Platform], store: tuple[str, dict[str, bytes]]
) -> None:
    one, other = pair
    with other.database.write() as connection:
        connection.execute(servers.delete().where(servers.c.id == one.servers.id))
    del store[1][f"saibot/servers/{one.servers.id}"]
    assert other.servers.others() == 0
    one.servers.beat(1)
    assert other.servers.others() == 1 and f"saibot/servers/{one.servers.id}" in store[1]


def test_a_copy_of_a_key_domain_that_could_not_be_made_is_made_later(
    pair: tuple[Platform, Platform], store: tuple[str, dict[str, bytes]]
) -> None:
    one, other = pair
    made, _ = one.domains.register(PROVIDER, "towns", 1, b"town\nBerne\n")
    name = f"saibot/domains/{made.digest}.arrow"
    content = store[1].pop(name)
    other.domains.keep_in_step()
    assert not other.domains.registry.entries()
    store[1][name] = content
    other.domains.keep_in_step()
    assert [card.id for card in other.domains.registry.entries()] == ["towns"]
    one.domains.registry.remove("towns", 1)
    one.domains.remove(PROVIDER, "towns", 1)  # its copy is gone already
    other.domains.keep_in_step()
    assert not other.domains.registry.entries()


def test_results_of_a_platform_that_was_one_server_are_there_when_it_is_one_of_several(
    pair: tuple[Platform, Platform], store: tuple[str, dict[str, bytes]], sketches: dict[str, bytes]
) -> None:
    one, other = pair
    id = one.searches.submit(ASKER, sketches["train"], None, Question(target="sales")).id
    (name,) = [name for name in store[1] if name.endswith(f"{id}/train.saibot")]
    content = store[1].pop(name)
    folder = one.settings.data / "searches" / id
    folder.mkdir()
    (folder / "train.saibot").write_bytes(content)  # where one server kept it
    one.close()
    again = open_platform(one.settings)
    again.close()
    assert store[1][name] == content and not folder.exists()
    assert (other.searches.request(id) / "train.saibot").read_bytes() == content
