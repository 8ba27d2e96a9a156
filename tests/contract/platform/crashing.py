"""Kills a platform at every step of an operation, and says what it finds when it opens it again. Run by test_crashes.py.

One process loads everything, then forks: a child does the operation and is killed at its n-th step (a statement to the
database, a sync, a rename, a removal), another opens the platform afterwards and looks. Both are as bare as a fresh start:
nothing but modules is shared.

    python crashing.py FOLDER SKETCH SKETCH SKETCH SCENARIO STRIDE    prints one JSON line for each kill
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import alembic.command  # noqa: F401  (loaded before the first fork)
from sqlalchemy import event
from sqlalchemy.engine import Engine

from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.catalog import Filter
from saibot.platform.service import Platform
from saibot.platform.storage import migrate
from saibot.search.corpus import Corpus
from saibot.search.packed_rows import pack
from saibot.sketch import read_sketch

PROVIDER = Caller("clinic", frozenset({"provider"}), "t1")
FIRST, SECOND, LATER = (Path(path).read_bytes() for path in sys.argv[2:5])
FOLDER = Path(sys.argv[1])


def opened(folder: Path) -> Platform:
    return Platform(Settings(data=folder, workers=1, pages=False, log_level="error"))


# ------------------------------------------------------------------------------------------------ operations


def upload(folder: Path, armed: Callable[[], None]) -> None:
    platform = opened(folder)
    armed()
    platform.publishing.accept(PROVIDER, SECOND)


def new_version(folder: Path, armed: Callable[[], None]) -> None:
    platform = opened(folder)
    armed()
    platform.publishing.accept(PROVIDER, LATER)
    platform.shards.catch_up()


def append(folder: Path, armed: Callable[[], None]) -> None:
    platform = opened(folder)
    platform.publishing.accept(PROVIDER, SECOND)
    armed()
    platform.shards.catch_up()


def withdraw(folder: Path, armed: Callable[[], None]) -> None:
    platform = opened(folder)
    dataset = listed(platform)[0]["id"]
    armed()
    platform.withdraw(PROVIDER, dataset)


def first_start(folder: Path, armed: Callable[[], None]) -> None:
    shutil.rmtree(folder)
    armed()
    opened(folder)


def migration(folder: Path, armed: Callable[[], None]) -> None:
    later_version()
    armed()
    opened(folder)


TODAYS, NEXT = migrate.LATEST, "9999"  # of the tables


def later_version() -> None:
    """A version of saibot whose tables have one column more, filled from the others."""
    place = FOLDER / "migrations"
    if not place.exists():
        shutil.copytree(migrate.FOLDER, place)
        (place / "versions" / f"{NEXT}_shout.py").write_text(
            "import sqlalchemy as sa\n"
            "from alembic import op\n"
            f"revision, down_revision = '{NEXT}', '{TODAYS}'\n"
            "def upgrade():\n"
            "    op.add_column('datasets', sa.Column('shout', sa.Text()))\n"
            "    op.execute('UPDATE datasets SET shout = upper(name)')\n"
            "    op.create_index('datasets_by_shout', 'datasets', ['shout'])\n"
        )
    migrate.FOLDER, migrate.LATEST = place, NEXT


SCENARIOS = {
    "upload": upload,
    "new version": new_version,
    "append": append,
    "withdraw": withdraw,
    "first start": first_start,
    "migration": migration,
}


# ------------------------------------------------------------------------------------------------ killing


def arm(steps: int) -> Callable[[], None]:
    """After `armed()`, the process is killed at its steps-th step."""
    left, on = steps, False

    def armed() -> None:
        nonlocal on
        on = True

    def step(*_: Any) -> None:
        nonlocal left
        if on:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    for name in ("fsync", "replace", "unlink", "link", "mkdir"):
        original = getattr(os, name)
        setattr(os, name, lambda *args, _original=original, **more: (step(), _original(*args, **more))[1])
    event.listen(Engine, "before_cursor_execute", step)
    event.listen(Engine, "commit", step)
    event.listen(Engine, "begin", step)
    return armed


def in_child(work: Callable[[int], None]) -> tuple[bytes, int]:
    """What a forked child wrote to its pipe, and how it ended."""
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(here)
        try:
            work(there)
            os._exit(0)
        except BaseException as problem:
            os.write(there, json.dumps({"broken": repr(problem)}).encode())
            os._exit(1)
    os.close(there)
    with os.fdopen(here, "rb") as pipe:
        content = pipe.read()
    return content, os.waitpid(child, 0)[1]


# ------------------------------------------------------------------------------------------------ looking


def listed(platform: Platform) -> list[dict[str, Any]]:
    everyone = Caller("admin", frozenset({"admin"}), "t0")
    return [json.loads(text) for text in platform.catalog.list(everyone, Filter(), limit=100).items]


def look(folder: Path) -> dict[str, Any]:
    platform = opened(folder)
    found = listed(platform)
    readable = []
    for dataset in found:
        with platform.open_sketch(PROVIDER, dataset["digest"]) as file:
            readable.append(file.read() in (FIRST, SECOND, LATER))
    platform.shards.catch_up()
    corpus = Corpus(folder / "corpus")
    swept = {str(d) for id in corpus.key_ids for shard in corpus.shards(id) for d in shard.text["digest"]}
    files = {path.stem for path in (folder / "sketches").glob("[0-9a-f][0-9a-f]/*.saibot")}  # set aside: not acknowledged
    digests = [read_sketch(content).digest for content in (FIRST, SECOND, LATER)]
    everything = b"".join(
        path.read_bytes()
        for part in ("sketches", "corpus")
        for path in (folder / part).rglob("*")
        if path.is_file() and "set-aside" not in path.parts
    )
    return {
        "listed": {dataset["name"]: [dataset["version"], dataset["digest"]] for dataset in found},
        "readable": all(readable),
        "searched": sorted(swept),
        "files": sorted(files),
        "known": {digest: digest.encode() in everything for digest in digests},
        "revision": migrate.revision(platform.database),
        "admin": (folder / "admin-token").read_text().strip() != "",
    }


def main() -> None:
    scenario, stride = SCENARIOS[sys.argv[5]], int(sys.argv[6])
    for content in (FIRST, SECOND, LATER):  # loads what is loaded at the first use
        pack(read_sketch(content), None)
    template = FOLDER / "template"
    in_child(lambda _: prepare(template))
    steps = 0
    while True:
        folder = FOLDER / f"run-{steps}"
        shutil.copytree(template, folder)

        def operate(pipe: int, steps: int = steps, folder: Path = folder) -> None:
            scenario(folder, arm(steps))
            os.write(pipe, b"acknowledged")

        told, ended = in_child(operate)
        if scenario is migration:
            later_version()
        seen, fine = in_child(lambda pipe, folder=folder: os.write(pipe, json.dumps(look(folder)).encode()) and None)
        line = {"steps": steps, "told": told.decode(), "killed": os.WIFSIGNALED(ended), "seen": json.loads(seen), "rc": fine}
        print(json.dumps(line), flush=True)
        shutil.rmtree(folder)
        if not os.WIFSIGNALED(ended):
            return
        steps += stride


def prepare(folder: Path) -> None:
    platform = opened(folder)
    platform.publishing.accept(PROVIDER, FIRST)
    platform.shards.catch_up()
    platform.database.close()


if __name__ == "__main__":
    main()
