"""What comes often is in the trail as sums by the hour: counted without writing, and few rows however many come."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager
from datetime import datetime, tzinfo
from typing import Any

import pytest
from sqlalchemy import delete, event, select
from sqlalchemy.exc import OperationalError

from saibot.platform import Settings, audit_log, clock
from saibot.platform.accounts import NOBODY, Caller
from saibot.platform.audit_log import Trail
from saibot.platform.errors import NotAllowed
from saibot.platform.service import Platform
from saibot.platform.storage.tables import trail
from tests.support.serving import ADMIN

Sums = dict[tuple[str, str, str], int]


def sums(platform: Platform) -> Sums:
    with platform.database.read() as connection:
        rows = connection.execute(select(trail).where(trail.c.hour.is_not(None))).all()
    return {(row.account, row.action, row.subject): row.times for row in rows}


def at(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "now", lambda: moment)


def test_a_download_is_counted_without_a_write_and_told_after_the_next_flush(
    platform: Platform, provider: Caller, named: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "start", lambda: None)  # nothing is packed or written beside
    dataset, _ = platform.accept(provider, named("stays"))
    written: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if not statement.lstrip().startswith(("SELECT", "WITH", "BEGIN")):
            written.append(statement)

    event.listen(platform.database.engine, "before_cursor_execute", note)
    for caller in (NOBODY, NOBODY, provider):
        platform.open_sketch(caller, dataset.digest).close()
    platform.open_sketch(provider, dataset.digest, counted=False).close()
    assert written == [] and sums(platform) == {}
    platform.trail.flush()
    assert sums(platform) == {("-", "download", "sketch"): 2, ("clinic", "download", "sketch"): 1}
    assert any("trail" in statement for statement in written)


def test_a_flood_is_one_row_an_hour(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    at("2026-03-01T09:59:59.000000Z", monkeypatch)
    for _ in range(3):
        threads = [threading.Thread(target=lambda: [platform.trail.count("", "refuse token", "me") for _ in range(500)])]
        threads += [threading.Thread(target=platform.trail.flush) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    platform.trail.flush()
    assert sums(platform) == {("-", "refuse token", "me"): 1500}
    at("2026-03-01T10:00:00.000000Z", monkeypatch)
    platform.trail.count("", "refuse token", "me")
    platform.trail.flush()
    page = platform.trail.list(ADMIN, None, 10, action="refuse token").items
    assert [(entry["hour"], entry["times"]) for entry in page] == [("2026-03-01T10", 1), ("2026-03-01T09", 1500)]


def test_many_accounts_fill_no_more_rows_than_there_may_be(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "MOST_SUMS", 5)
    at("2026-03-01T09:00:00.000000Z", monkeypatch)
    for number in range(40):
        platform.trail.count(f"a{number}", "download", "sketch")
        if number % 7 == 0:
            platform.trail.flush()
    platform.trail.flush()
    found = sums(platform)
    assert len(found) == 6 and found["*", "download", "sketch"] == 35 and sum(found.values()) == 40


def test_what_cannot_be_written_is_written_by_the_next_flush(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    platform.trail.count("", "refused", "datasets")
    write = platform.database.write

    @contextmanager
    def away() -> Any:
        with write() as connection:
            yield connection
            raise OperationalError("full", None, Exception("disk"))

    monkeypatch.setattr(platform.database, "write", away)
    with pytest.raises(OperationalError):
        platform.trail.flush()
    platform.trail.count("", "refused", "datasets")
    monkeypatch.setattr(platform.database, "write", write)
    assert sums(platform) == {}
    platform.trail.flush()
    assert sums(platform) == {("-", "refused", "datasets"): 2}


def test_closing_writes_what_was_counted(settings: Settings) -> None:
    first = Platform(settings)
    first.trail.count("", "refused", "datasets")
    first.close()
    second = Platform(settings)
    assert sums(second) == {("-", "refused", "datasets"): 1}
    second.close()


def test_a_platform_at_work_writes_by_itself(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saibot.platform.service.COUNTED_SECONDS", 0.01)
    monkeypatch.setattr(Trail, "flush", _told := _Told())
    platform = Platform(settings)
    platform.start()
    assert _told.wait(20)
    platform.close()


class _Told(threading.Event):
    __name__ = "flush"

    def __call__(self) -> None:
        self.set()


def test_the_trail_is_narrowed_by_action_account_and_day(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    with platform.database.write() as connection:
        for day, account, action in (("01", "a", "publish"), ("02", "b", "publish"), ("03", "a", "withdraw")):
            at(f"2026-03-{day}T12:00:00.000000Z", monkeypatch)
            platform.trail.note(connection, account, action, "d1", {})
    platform.trail.count("a", "download", "sketch")
    platform.trail.flush()

    def told(**filters: str) -> list[str]:
        return [entry["at"][8:10] + entry["action"] for entry in platform.trail.list(ADMIN, None, 50, **filters).items]

    assert told(action="publish") == ["02publish", "01publish"]
    assert told(account="a") == ["03download", "03withdraw", "01publish"]
    assert told(since="2026-03-03T12:30", account="a") == ["03download"], "an hour that has begun before, as well"
    assert told(since="2026-03-03T12:30Z", account="a") == told(since="2026-03-03T12:30", account="a")
    (single,) = platform.trail.list(ADMIN, None, 1, action="create token").items
    for length in (11, 14, 17, 20, 27):  # its day, hour, minute, second, and all of it
        moment = single["at"][: length - 1] + "Z" if length > 11 else single["at"][:10]
        assert single in platform.trail.list(ADMIN, None, 50, since=moment).items, moment
    assert told(since="2026-03-04") == [entry for entry in told(since="2026-03-04") if "create token" in entry]
    first = platform.trail.list(ADMIN, None, 1, account="a")
    assert platform.trail.list(ADMIN, first.next, 1, account="a").items[0]["action"] == "withdraw"
    with pytest.raises(NotAllowed):
        platform.trail.list(Caller("x", frozenset({"provider"})), None, 1)


def test_whoever_flushes_waits_for_what_another_has_begun_to_write(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing would end the database under it."""
    began, goes_on = threading.Event(), threading.Event()
    add = platform.trail._add

    def slowly(*given: Any) -> None:
        began.set()
        assert goes_on.wait(60)
        add(*given)

    monkeypatch.setattr(platform.trail, "_add", slowly)
    platform.trail.count("who", "download", "sketch")
    first = threading.Thread(target=platform.trail.flush)
    first.start()
    assert began.wait(60)
    second = threading.Thread(target=platform.trail.flush)
    second.start()
    second.join(0.2)
    assert second.is_alive()
    goes_on.set()
    first.join(60)
    second.join(60)
    assert sums(platform)["who", "download", "sketch"] == 1


def test_entries_go_when_they_are_old_and_few_at_a_time(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing ever did: whoever made tokens and revoked them in a loop filled the table."""
    with platform.database.write() as connection:
        connection.execute(delete(trail))
        for day in range(1, 31):
            at(f"2020-01-{day:02}T00:00:00.000000Z", monkeypatch)
            for _ in range(10):
                platform.trail.note(connection, "clinic", "create token", "t1", {})
        monkeypatch.undo()
        platform.trail.note(connection, "clinic", "publish", "d1", {})
    assert platform.trail.prune(1e5) == 0
    monkeypatch.setattr(clock, "datetime", _TheFifteenth)
    assert platform.trail.prune(10, most=30) == 30 and platform.trail.prune(10) == 10, "those of four days"
    monkeypatch.undo()
    platform.tidy()
    left = platform.trail.list(ADMIN, None, 200).items
    assert [one["action"] for one in left] == ["publish"]


class _TheFifteenth(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime(2020, 1, 15, tzinfo=tz)
