"""Every hostile input against a running server, one after the other, while a bystander browses and searches.

    python -m tests.campaigns.attacks [--postgres] [--quick] [--only NAME]

prints a table: what the server and its children had in memory at most above idle, how long the bystander waited, what was
answered, and whether all that was acknowledged is there. It exits with 1 where a limit is passed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.campaigns import assaults, slow_callers
from tests.campaigns.scene import Measured, Scene, Watcher, attacked_server

ATTACKS: dict[str, Callable[[Scene], None]] = {
    "hostile numbers": assaults.hostile_numbers,
    "bombs": assaults.bombs,
    "tiny headers": assaults.tiny_headers,
    "long texts": assaults.long_texts,
    "bodies of nobody": assaults.bodies_of_nobody,
    "bodies of accounts": assaults.bodies_of_accounts,
    "readers of large ones": assaults.readers_of_large_ones,
    "many searches": assaults.many_searches,
    "many keys": assaults.many_keys,
    "unfinished heads": slow_callers.unfinished_heads,
    "endless heads": slow_callers.endless_heads,
    "slow bodies": slow_callers.slow_bodies,
    "unread streams": slow_callers.unread_streams,
    "unread answers": slow_callers.unread_answers,
}
SETTLE_SECONDS = 3.0


@dataclass(frozen=True)
class Line:
    attack: str
    seconds: float
    measured: Measured
    statuses: dict[str, int]
    wrong: list[str]
    kept: int
    lost: list[str]


def campaign(
    folder: Path, *, database: str | None = None, quick: bool = False, only: list[str] | None = None
) -> tuple[float, list[Line]]:
    """MB when idle, and a line for every attack."""
    with ExitStack() as held:
        scene, pid = held.enter_context(attacked_server(folder, database=database, quick=quick))
        watcher = Watcher(scene, pid)
        held.callback(watcher.close)
        while not watcher.searches():
            time.sleep(0.1)
        started = time.time()
        time.sleep(SETTLE_SECONDS if not quick else 0.5)
        idle = watcher.between(started, time.time()).peak_mb
        lines = []
        for name, attack in ATTACKS.items():
            if only and name not in only:
                continue
            scene.statuses.clear()
            scene.wrong.clear()
            started = time.time()
            attack(scene)
            time.sleep(0.2 if quick else SETTLE_SECONDS)
            ended = time.time()
            measured = watcher.between(started, ended, idle_mb=idle)
            lines.append(
                Line(name, ended - started, measured, dict(scene.statuses), list(scene.wrong), len(scene.kept), scene.lost())
            )
            print(shown(lines[-1]), flush=True)
        return idle, lines


def shown(line: Line) -> str:
    m = line.measured
    statuses = " ".join(f"{status}x{count}" for status, count in sorted(line.statuses.items()))
    return (
        f"{line.attack:22} {line.seconds:6.1f} s  {m.peak_mb:+7.0f} MB {m.processes_mb}  p95 {m.p95_ms:7.0f} ms of {m.requests:4} "
        f"(most {m.slowest_ms:6.0f})  searches {m.searches}  {m.refused or ''}  {statuses}  {line.wrong[:3] or ''}  kept {line.kept - len(line.lost)}/{line.kept}"
    )


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--postgres", action="store_true")
    asked.add_argument("--quick", action="store_true")
    asked.add_argument("--only", action="append")
    chosen = asked.parse_args()
    os.nice(10)
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="saibot-attacks-")))
        database = None
        if chosen.postgres:
            from tests.support.postgres import running_postgres

            database = held.enter_context(running_postgres())()
        idle, lines = campaign(folder, database=database, quick=chosen.quick, only=chosen.only)
        print(f"idle {idle:.0f} MB", json.dumps([]), file=sys.stderr)


if __name__ == "__main__":
    main()
