"""A platform that is killed at any moment, again and again: what it acknowledged is there, and nothing is there by half.

    python -m tests.campaigns.kills --kills 500 --state FOLDER [--postgres]

goes on where it was stopped. One process forks: a child opens the platform, compares it with the journal of what was
acknowledged, and then publishes, withdraws, packs, searches, registers and removes key domains, and backs up until it is
killed; some are killed while they open it. Before some rounds the end of SQLite's log is torn, the clock is ahead for one
round, or a later version brings new tables; on Postgres, the database crashes and comes back in the middle of some rounds.
Where a disk may be mounted, the platform has a small one of its own, which is filled to the last byte in some rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.backup import backup
from saibot.platform.catalog import Filter
from saibot.platform.errors import OverQuota
from saibot.platform.service import Platform, open_platform
from saibot.platform.shared_shards import TurnLost
from saibot.platform.storage.reserve import is_full
from saibot.platform.storage.unavailable import StorageAway, is_away
from saibot.search.corpus import Corpus
from saibot.sketch import read_sketch, write_sketch
from saibot.wire import Question
from tests.campaigns.faults import clock_ahead, empty, fill, small_disk, tear_the_log, with_more_tables
from tests.support.fabricating import drawn_anew
from tests.support.forging import content_of

PROVIDER = Caller("clinic", frozenset({"provider", "requester"}), "t-clinic")
FILTER = Filter(provider=PROVIDER.name)
LONGEST = 1.0  # seconds until a kill
EXPIRY = 30  # days until some of the datasets expire
AHEAD = 400.0  # days, of a clock that is wrong


@dataclass(frozen=True)
class Journal:
    """One line before an operation and one after it, on disk each: what is not acknowledged may have happened or not.

    Names begin with what they name: `n` a dataset, `e` one that expires, `d` a key domain, `s` a search.
    """

    path: Path

    def write(self, **entry: Any) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def acknowledged(self) -> tuple[dict[str, bool], set[str]]:
        """Names that are there (True) or gone (False) for sure, and those that an unfinished operation leaves open."""
        sure: dict[str, bool] = {}
        open_ends: set[str] = set()
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        for line in lines:
            entry = json.loads(line)
            if entry["when"] == "before":
                open_ends.add(entry["name"])
            else:
                sure[entry["name"]] = entry["there"]
                open_ends.discard(entry["name"])
        return sure, open_ends


def named_sketch(name: str) -> bytes:
    sketch = read_sketch(content_of("lookup-levels"))
    facts = sketch.header.dataset.model_copy(update={"name": name})
    return write_sketch(drawn_anew(replace(sketch, header=sketch.header.model_copy(update={"dataset": facts})), name))


# ------------------------------------------------------------------------------------------------ comparing


def compare(platform: Platform, journal: Journal, *, expired: bool) -> int:
    """How many datasets are there; raises where the platform and the journal differ. `expired` if its clock is ahead."""
    sure, open_ends = journal.acknowledged()
    found: dict[str, dict[str, Any]] = {}
    place = None
    while True:
        page = platform.catalog.list(PROVIDER, FILTER, place=place, limit=200)
        found |= {one["name"]: one for one in map(json.loads, page.items)}
        if page.next is None:
            break
        place = page.next
    known = {domain.id for domain in platform.domains.list(None, 10_000).items}
    asked = {search.id for search in platform.searches.list(PROVIDER, None, 10_000).items}
    there = {"n": set(found), "e": set(found), "d": known, "s": asked}
    wrong = {
        name
        for name, is_there in sure.items()
        if name not in open_ends and (name in there[name[0]]) != (is_there and not (expired and name[0] == "e"))
    }
    assert not wrong, f"acknowledged and lost, or gone and there: {sorted(wrong)}"
    for one in found.values():
        with platform.open_sketch(PROVIDER, one["digest"]) as file:
            assert read_sketch(file.read()).digest == one["digest"], f"half there: {one['name']}"
    platform.shards.catch_up()
    packed, wanted = set(Corpus(platform.shards.folder).digests), {one["digest"]: name for name, one in found.items()}
    beyond = [digest[:12] for digest in packed - set(wanted)]
    assert packed == set(wanted), f"shards differ: without {[wanted[d] for d in set(wanted) - packed]}, beyond {beyond}"
    assert platform.missing_files == 0, "a file is missing"
    return len(found)


# ------------------------------------------------------------------------------------------------ operating


def operate(platform: Platform, journal: Journal, rng: random.Random) -> None:
    """Operations without end. One that meets a database that is away is not acknowledged."""
    while True:
        try:
            rng.choices(OPERATIONS, WEIGHTS)[0](platform, journal, rng)
        except OverQuota:
            pass
        except Exception as problem:
            if not is_away(problem) and not is_full(problem) and not isinstance(problem, TurnLost | StorageAway):
                raise
            time.sleep(0.05)


def _publish(platform: Platform, journal: Journal, rng: random.Random) -> None:
    expires = rng.random() < 0.2
    name = f"{'e' if expires else 'n'}{rng.randrange(10**9)}"
    day = (datetime.now(UTC).date() + timedelta(EXPIRY)).isoformat() if expires else None
    journal.write(when="before", name=name)
    platform.accept(PROVIDER, named_sketch(name), expires=day)
    journal.write(when="after", name=name, there=True)


def _one_of(journal: Journal, rng: random.Random, kinds: str) -> str | None:
    sure, open_ends = journal.acknowledged()
    there = sorted(name for name, is_there in sure.items() if is_there and name not in open_ends and name[0] in kinds)
    return rng.choice(there) if there else None


def _withdraw(platform: Platform, journal: Journal, rng: random.Random) -> None:
    name = _one_of(journal, rng, "ne")
    if name is not None:
        page = platform.catalog.list(PROVIDER, replace(FILTER, q=name), limit=1)
        journal.write(when="before", name=name)
        platform.withdraw(PROVIDER, json.loads(page.items[0])["id"])
        journal.write(when="after", name=name, there=False)


def _register(platform: Platform, journal: Journal, rng: random.Random) -> None:
    name = f"d{rng.randrange(10**9)}"
    journal.write(when="before", name=name)
    platform.register_domain(PROVIDER, name, 1, f"key\na\n{name}\n".encode())
    journal.write(when="after", name=name, there=True)


def _unregister(platform: Platform, journal: Journal, rng: random.Random) -> None:
    name = _one_of(journal, rng, "d")
    if name is not None:
        journal.write(when="before", name=name)
        platform.domains.remove(PROVIDER, name, 1)
        journal.write(when="after", name=name, there=False)


def _search(platform: Platform, journal: Journal, rng: random.Random) -> None:
    found = platform.submit(PROVIDER, content_of("lookup-levels"), None, Question(target="delay"))
    journal.write(when="after", name=found.id, there=True)


def _cancel(platform: Platform, journal: Journal, rng: random.Random) -> None:
    name = _one_of(journal, rng, "s")
    if name is not None:
        journal.write(when="before", name=name)
        if platform.searches.cancel(PROVIDER, name) is None:  # it was over, and is removed
            journal.write(when="after", name=name, there=False)
        else:
            journal.write(when="after", name=name, there=True)


def _pack(platform: Platform, journal: Journal, rng: random.Random) -> None:
    platform.shards.catch_up()


def _back_up(platform: Platform, journal: Journal, rng: random.Random) -> None:
    backup(platform.settings, platform.settings.data.parent / "backup.tar")


OPERATIONS: list[Callable[[Platform, Journal, random.Random], None]]
OPERATIONS = [_publish, _withdraw, _register, _unregister, _search, _cancel, _pack, _back_up]
WEIGHTS = (40, 18, 6, 5, 8, 6, 12, 5)


# ------------------------------------------------------------------------------------------------ rounds


@dataclass(frozen=True)
class Round:
    """What happens in one round; the same for the same number."""

    number: int
    ahead: bool  # the clock is
    early: bool  # killed while it opens the platform
    torn: bool  # the end of SQLite's log is, before
    migrates: bool  # new tables come with it
    restarts: bool  # Postgres does, meanwhile
    fills: bool  # the disk does, meanwhile

    @classmethod
    def numbered(cls, number: int) -> Round:
        rng = random.Random(number)
        chances = [rng.random() < chance for chance in (0.1, 0.15, 0.15, 0.1, 0.2, 0.15)]
        return cls(number, *chances)


def play(
    settings: Settings,
    state: Path,
    journal: Journal,
    now: Round,
    *,
    tables: int,
    kill: bool,
    restart: Any = None,
    disk: Path | None = None,
) -> str:
    """Fork, compare, operate, and kill at a random moment; the outcome in a word."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            if tables:
                with_more_tables(state, tables)
            with ExitStack() as faults:
                if now.ahead:
                    faults.enter_context(clock_ahead(AHEAD))
                platform = open_platform(settings)
                if now.ahead:
                    platform.tidy()
                # Of several servers the database's clock counts, which is right.
                count = compare(platform, journal, expired=now.ahead and settings.database is None)
                os.write(writing, f"fine {count}".encode())
                while now.ahead:
                    time.sleep(1)
                if kill:
                    operate(platform, journal, random.Random(now.number))
        except BaseException:
            os.write(writing, traceback.format_exc()[-3000:].encode())
        os._exit(0)
    os.close(writing)
    rng = random.Random(-now.number)
    if kill and now.early:
        time.sleep(rng.uniform(0.0, 0.4))
        os.kill(child, signal.SIGKILL)
        said = "fine, killed early"
    else:
        said = os.read(reading, 4000).decode()
        if said.startswith("fine") and (kill or now.ahead):
            time.sleep(rng.uniform(0.01, LONGEST / 2))
            if now.restarts and restart is not None:
                restart()
            if now.fills and disk is not None:
                fill(disk)
            time.sleep(rng.uniform(0.0, LONGEST / 2))
            os.kill(child, signal.SIGKILL)
            told = os.read(reading, 4000).decode()
            said = told or said  # a mistake while it operated
    os.waitpid(child, 0)
    os.close(reading)
    return said


def campaign(state: Path, kills: int, *, postgres: Any = None) -> dict[str, Any]:
    """So many kills in all, those of earlier runs included, and one comparison at the end."""
    state.mkdir(parents=True, exist_ok=True)
    with small_disk(state) as disk:
        return _campaign(state, kills, postgres=postgres, disk=disk)


def _campaign(state: Path, kills: int, *, postgres: Any, disk: Path | None) -> dict[str, Any]:
    journal, file = Journal(state / "journal.jsonl"), state / "done.json"
    done = json.loads(file.read_text()) if file.exists() else {"kills": 0, "tables": 0, "faults": {}, "database": None}
    if postgres is not None and done["database"] is None:
        done["database"] = postgres()
    if done.setdefault("disk", disk is not None) and disk is None:
        raise SystemExit(f"{state} has a disk of its own, which cannot be mounted here: begin anew in another folder.")
    place = state if disk is None or not done["disk"] else disk
    settings = Settings(
        data=place / "data",
        database=done["database"],
        files=str(place / "files") if postgres is not None else None,  # so that servers could share them
        workers=1,
        pages=False,
        log_level="error",
        accept_unsafe=True,
    )
    restart = None if postgres is None else postgres.restart
    faults = Counter(done["faults"])
    while done["kills"] < kills:
        now = Round.numbered(done["kills"])
        if disk is not None:
            empty(disk)
        if now.torn and postgres is None and tear_the_log(settings.data):
            faults["torn"] += 1
        if now.ahead:  # results expire by the clock, and whoever asked can ask again
            for name in (name for name in journal.acknowledged()[0] if name.startswith("s")):
                journal.write(when="before", name=name)
        done["tables"] += now.migrates
        said = play(settings, state, journal, now, tables=done["tables"], kill=True, restart=restart, disk=disk)
        if not said.startswith("fine"):
            raise AssertionError(f"after {done['kills']} kills: {said}")
        faults.update(name for name in ("ahead", "early", "migrates") if getattr(now, name))
        faults["restarts"] += now.restarts and restart is not None and not now.early
        faults["filled"] += now.fills and disk is not None and not now.early
        done |= {"kills": done["kills"] + 1, "faults": dict(faults)}
        file.write_text(json.dumps(done))
        print(done["kills"], said, file=sys.stderr)
    if disk is not None:
        empty(disk)
    last = Round(done["kills"], ahead=False, early=False, torn=False, migrates=False, restarts=False, fills=False)
    said = play(settings, state, journal, last, tables=done["tables"], kill=False)
    if not said.startswith("fine"):
        raise AssertionError(f"after {done['kills']} kills: {said}")
    sure, _ = journal.acknowledged()
    return {"kills": done["kills"], "acknowledged": len(sure), "there": int(said.split()[1]), "faults": dict(faults)}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--kills", type=int, default=500)
    asked.add_argument("--state", type=Path, required=True)
    asked.add_argument("--postgres", action="store_true", help="on a real Postgres, from a wheel, that is restarted as well")
    chosen = asked.parse_args()
    with ExitStack() as held:
        postgres = None
        if chosen.postgres:
            from tests.support.postgres import running_postgres

            postgres = held.enter_context(running_postgres(chosen.state / "postgres"))
        print(json.dumps(campaign(chosen.state, chosen.kills, postgres=postgres)))


if __name__ == "__main__":
    main()
