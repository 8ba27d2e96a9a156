"""A platform of the first tables, with data, that is brought up to date and killed meanwhile, again and again.

    python -m tests.campaigns.migrations --kills 100 [--postgres]

Each round begins with the same platform as revision 0001 left it: datasets with their files, key domains, searches, tokens
and the trail. Its start by today's code is killed at a random statement of the migration or at a random moment, up to three
times in a row. After each kill the database is of 0001 to the last cell, or of today; at the end all that was acknowledged
is there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import alembic.command  # noqa: F401  (loaded before the first fork)
from sqlalchemy import Engine, event, inspect, text

from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.service import open_platform
from saibot.platform.storage.database import Database
from saibot.platform.storage.migrate import LATEST, migrate, revision
from saibot.wire import Question
from tests.campaigns.kills import PROVIDER, Journal, compare, named_sketch
from tests.support.forging import content_of

FIRST = "0001"
# What documents of datasets have gained since: those of 0001 had none of these.
SINCE = (
    "keys",
    "account",
    "spent",
    "open",
    "source",
    "confirmed",
    "verified",
    "signer",
    "copy_of",
    "flags",
    "feature_count",
    "tags",
)
Rows = dict[str, list[dict[str, Any]]]


@dataclass
class FirstVersion:
    """The platform that every round begins with, and what it holds."""

    folder: Path
    database: str | None  # of Postgres
    postgres: Any
    rows: Rows = field(default_factory=dict)
    told: dict[str, dict[str, Any]] = field(default_factory=dict)  # datasets as today's code describes them, by id

    @property
    def journal(self) -> Journal:
        return Journal(self.folder / "journal.jsonl")

    def again(self, folder: Path) -> Settings:
        """A copy of it to start."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder / "platform", folder)
        return settings_in(folder, None if self.database is None else self.postgres(like=self.database))


def settings_in(folder: Path, database: str | None) -> Settings:
    files = str(folder / "files") if database is not None else None
    return Settings(
        data=folder / "data", database=database, files=files, workers=1, pages=False, log_level="error", accept_unsafe=True
    )


# ------------------------------------------------------------------------------------------------ before


def first_version(folder: Path, held: int, *, postgres: Any = None) -> FirstVersion:
    """Today's code fills a platform with so many datasets; what it wrote is put into tables of 0001, as far as it fits."""
    today = None if postgres is None else postgres()
    settings = settings_in(folder / "platform", today)
    found = FirstVersion(folder, None if postgres is None else postgres(), postgres)
    folder.mkdir(parents=True, exist_ok=True)
    _in_a_child(partial(_fill, settings, found.journal, held))
    database = Database(settings.database_url)
    now = contents(database)
    database.close()
    if postgres is None:
        for path in settings.data.glob("saibot.db*"):
            path.unlink()
    old = Database(settings_in(folder / "platform", found.database).database_url)
    migrate(old, to=FIRST)
    with old.write() as connection:
        for table in ("datasets", "domains", "searches", "tokens", "trail", "terms", "versions"):
            columns = [one["name"] for one in inspect(connection).get_columns(table)]
            rows = [{name: row[name] for name in columns} for row in now[table]]
            if table == "datasets":
                found.told = {row["id"]: json.loads(row["document"]) for row in rows}
                rows = [row | {"document": _of_then(row["document"])} for row in rows]
            names = ", ".join(f'"{name}"' for name in columns)
            places = ", ".join(f":{name}" for name in columns)
            connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({places})"), rows)
    found.rows = contents(old)
    old.close()
    return found


def _fill(settings: Settings, journal: Journal, held: int) -> None:
    platform = open_platform(settings)
    platform.accounts.create(Caller("admin", frozenset({"admin"}), "t-admin"), PROVIDER.name, ["provider"])
    for number in range(held):
        platform.accept(PROVIDER, named_sketch(f"n{number}"))
        journal.write(when="after", name=f"n{number}", there=True)
    for number in range(3):
        platform.register_domain(PROVIDER, f"d{number}", 1, f"key\na\nd{number}\n".encode())
        journal.write(when="after", name=f"d{number}", there=True)
        asked = platform.submit(PROVIDER, content_of("lookup-levels"), None, Question(target="delay"))
        journal.write(when="after", name=asked.id, there=True)
    platform.shards.catch_up()


def _of_then(document: str) -> str:
    return json.dumps({name: value for name, value in json.loads(document).items() if name not in SINCE}, ensure_ascii=False)


def contents(database: Database) -> Rows:
    with database.read() as connection:
        tables = inspect(connection).get_table_names()
        found = {
            name: [dict(row) for row in connection.execute(text(f"SELECT * FROM {name}")).mappings()] for name in tables
        }
    return {name: sorted(rows, key=repr) for name, rows in found.items()}


# ------------------------------------------------------------------------------------------------ meanwhile


def _in_a_child(work: Callable[[], object], *, kill_after: float | None = None) -> bool:
    """Whether it came to its end before it was killed, or killed itself. A mistake of its own is raised here."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            work()
            os.write(writing, b"done")
        except BaseException:
            os.write(writing, traceback.format_exc()[-3000:].encode())
        os._exit(0)
    os.close(writing)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    said = os.read(reading, 4000).decode()
    os.waitpid(child, 0)
    os.close(reading)
    assert said in ("", "done"), said
    return said == "done"


def _open_until(settings: Settings, statement: int | None) -> None:
    """Start the platform, in a process that dies before this statement."""
    if statement is not None:
        left = [statement]

        def count(*_: Any) -> None:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        event.listen(Engine, "before_cursor_execute", count)
    open_platform(settings)


def _check_whole(settings: Settings, first: FirstVersion) -> str:
    """Of which revision a database is after a kill. Half way there is none."""
    database = Database(settings.database_url)
    try:
        found = revision(database)
        assert found in (FIRST, LATEST), found
        if found == FIRST:
            assert contents(database) == first.rows, "the tables of 0001 were changed"
        return found
    finally:
        database.close()


def _check_all_there(settings: Settings, first: FirstVersion) -> None:
    """Started without being killed: all that was acknowledged is there, and is told as if it had been published today."""
    platform = open_platform(settings)
    compare(platform, first.journal, expired=False)
    platform.tidy()
    database = Database(settings.database_url)
    now = contents(database)
    assert revision(database) == LATEST
    database.close()
    for row in now["datasets"]:
        document, told = json.loads(row["document"]), first.told[row["id"]]
        differs = {name for name in told.keys() | document.keys() if document.get(name) != told.get(name)}
        assert differs <= {"feature_count"}, (differs, document, told)
    assert all(row["payload"] for row in now["versions"]), "a payload was not filled in"
    gained = {"tokens": {"parent": None}}
    for table in ("tokens", "domains", "terms"):
        assert now[table] == [row | gained.get(table, {}) for row in first.rows[table]], table
    known = [repr(row) for row in now["trail"]]
    once = {"hour": None, "times": 1}  # what an entry of 0001 has gained
    assert all(repr(row | once) in known for row in first.rows["trail"]), "the trail lost a line"


def campaign(folder: Path, kills: int, *, postgres: Any = None, held: int = 200) -> dict[str, Any]:
    """So many kills; how often the database was of which revision afterwards."""
    first = first_version(folder / "first", held, postgres=postgres)
    settings = first.again(folder / "now")
    started = time.monotonic()
    _in_a_child(partial(open_platform, settings))
    seconds = time.monotonic() - started
    _in_a_child(partial(_check_all_there, settings, first))
    statements = _statements(first.again(folder / "now"))
    after: Counter[str] = Counter()
    rounds, rng = 0, random.Random(kills)
    while after.total() < kills:
        settings, rounds = first.again(folder / "now"), rounds + 1
        for _ in range(rng.randint(1, 3)):
            if rng.random() < 0.7:
                statement, moment = rng.randrange(statements), None
            else:
                statement, moment = None, rng.uniform(0.0, seconds)
            if _in_a_child(partial(_open_until, settings, statement), kill_after=moment):
                break  # it was up to date before that moment
            found = _check_whole(settings, first)
            after[found] += 1
            if found == LATEST:
                break
        _in_a_child(partial(_check_all_there, settings, first))
        print(after.total(), dict(after), file=sys.stderr)
    return {"kills": after.total(), "rounds": rounds, "then": dict(after), "datasets": held}


def _statements(settings: Settings) -> int:
    """How many there are until the platform is up to date."""
    seen: list[str] = []
    database = Database(settings.database_url)
    event.listen(database.engine, "before_cursor_execute", lambda *about: seen.append(about[2]))
    migrate(database)
    database.close()
    return len(seen)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--kills", type=int, default=100)
    asked.add_argument("--postgres", action="store_true", help="on a real Postgres, from a wheel, instead of SQLite")
    chosen = asked.parse_args()
    with ExitStack() as held:
        postgres = None
        if chosen.postgres:
            from tests.support.postgres import running_postgres

            postgres = held.enter_context(running_postgres())
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="saibot-migrations-")))
        print(json.dumps(campaign(folder, chosen.kills, postgres=postgres)))


if __name__ == "__main__":
    main()
