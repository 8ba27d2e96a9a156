"""A platform that is killed at any moment, again and again: what it acknowledged is there, and nothing is there by half.

    python -m tests.campaigns.kills --kills 500 --state FOLDER [--database postgresql://...]

goes on where it was stopped. One process forks: a child opens the platform, compares it with the journal of what was
acknowledged, and then publishes, withdraws, packs, registers and removes key domains, and backs up until it is killed.
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.backup import backup
from saibot.platform.catalog import Filter
from saibot.platform.service import Platform, open_platform
from saibot.search.corpus import Corpus
from saibot.sketch import read_sketch, write_sketch
from tests.support.forging import content_of

PROVIDER = Caller("clinic", frozenset({"provider", "requester"}), "t-clinic")
FILTER = Filter(provider=PROVIDER.name)
LONGEST = 1.0  # seconds until a kill


@dataclass(frozen=True)
class Journal:
    """One line before an operation and one after it, on disk each: what is not acknowledged may have happened or not."""

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


def named_sketch(number: int) -> bytes:
    sketch = read_sketch(content_of("lookup-levels"))
    facts = sketch.header.dataset.model_copy(update={"name": f"n{number}"})
    return write_sketch(replace(sketch, header=sketch.header.model_copy(update={"dataset": facts})).sealed())


def compare(platform: Platform, journal: Journal) -> int:
    """How many datasets are there; raises where the platform and the journal differ."""
    sure, open_ends = journal.acknowledged()
    found: dict[str, dict[str, Any]] = {}
    place = None
    while True:
        page = platform.catalog.list(PROVIDER, FILTER, place=place, limit=200)
        found |= {one["name"]: one for one in map(json.loads, page.items)}
        if page.next is None:
            break
        place = page.next
    wrong = {name for name, there in sure.items() if name not in open_ends and (name in found) != there}
    assert not wrong, f"acknowledged and lost, or gone and there: {sorted(wrong)}"
    for one in found.values():
        with platform.open_sketch(PROVIDER, one["digest"]) as file:
            assert read_sketch(file.read()).digest == one["digest"], f"half there: {one['name']}"
    platform.shards.catch_up()
    assert set(Corpus(platform.shards.folder).digests) == {one["digest"] for one in found.values()}, "shards differ"
    assert platform.missing_files == 0, "a file is missing"
    return len(found)


def operate(platform: Platform, journal: Journal, rng: random.Random) -> None:
    """Operations without end."""
    while True:
        sure, open_ends = journal.acknowledged()
        there = sorted(name for name, is_there in sure.items() if is_there and name not in open_ends)
        published = [name for name in there if name.startswith("n")]
        what = rng.random()
        if what < 0.5 or not published:
            name = f"n{rng.randrange(10**9)}"
            journal.write(when="before", name=name)
            platform.accept(PROVIDER, named_sketch(int(name[1:])))
            journal.write(when="after", name=name, there=True)
        elif what < 0.7:
            name = rng.choice(published)
            page = platform.catalog.list(PROVIDER, replace(FILTER, q=name), limit=1)
            journal.write(when="before", name=name)
            platform.withdraw(PROVIDER, json.loads(page.items[0])["id"])
            journal.write(when="after", name=name, there=False)
        elif what < 0.8:
            name = f"d{rng.randrange(10**9)}"
            journal.write(when="before", name=name)
            platform.register_domain(PROVIDER, name, 1, f"key\na\n{name}\n".encode())
            platform.domains.remove(PROVIDER, name, 1)
        elif what < 0.95:
            platform.shards.catch_up()
        else:
            backup(platform.settings, platform.settings.data.parent / "backup.tar")


def one_round(settings: Settings, journal: Journal, seed: int, *, kill: bool) -> str:
    """Fork, compare, operate, and kill at a random moment of operating; the outcome in a word."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            platform = open_platform(settings)
            count = compare(platform, journal)
            os.write(writing, f"fine {count}".encode())
            if kill:
                operate(platform, journal, random.Random(seed))
        except BaseException:
            os.write(writing, traceback.format_exc()[-3000:].encode())
        os._exit(0)
    os.close(writing)
    said = os.read(reading, 4000).decode()
    if kill and said.startswith("fine"):
        time.sleep(random.Random(-seed).uniform(0.01, LONGEST))
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)
    return said


def campaign(state: Path, kills: int, *, database: str | None = None) -> dict[str, int]:
    """So many kills in all, those of earlier runs included, and one comparison at the end."""
    state.mkdir(parents=True, exist_ok=True)
    settings = Settings(
        data=state / "data", database=database, workers=1, pages=False, log_level="error", accept_unsafe=True
    )
    journal, file = Journal(state / "journal.jsonl"), state / "done.json"
    done = json.loads(file.read_text())["kills"] if file.exists() else 0
    while done < kills:
        said = one_round(settings, journal, done, kill=True)
        if not said.startswith("fine"):
            raise AssertionError(f"after {done} kills: {said}")
        done += 1
        file.write_text(json.dumps({"kills": done}))
        print(done, said, file=sys.stderr)
    said = one_round(settings, journal, done, kill=False)
    if not said.startswith("fine"):
        raise AssertionError(f"after {done} kills: {said}")
    sure, _ = journal.acknowledged()
    return {"kills": done, "acknowledged": len(sure), "there": int(said.split()[1])}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--kills", type=int, default=500)
    asked.add_argument("--state", type=Path, required=True)
    asked.add_argument("--database", default=None)
    chosen = asked.parse_args()
    print(json.dumps(campaign(chosen.state, chosen.kills, database=chosen.database)))


if __name__ == "__main__":
    main()
