"""Every hostile input against a running server, one after the other, while a bystander browses and searches.

    python -m tests.campaigns.attacks [--postgres] [--quick] [--only NAME]

prints a table: what the server and its children had in memory at most above idle, how long the bystander waited, what was
answered, and whether all that was acknowledged is there. It exits with 1 where a limit is passed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
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
    "keys come and go": assaults.keys_come_and_go,
    "many connections": slow_callers.many_connections,
    "unfinished heads": slow_callers.unfinished_heads,
    "endless heads": slow_callers.endless_heads,
    "slow bodies": slow_callers.slow_bodies,
    "unread streams": slow_callers.unread_streams,
    "unread answers": slow_callers.unread_answers,
}
SETTLE_SECONDS = 3.0
MOST_MB = 300.0  # above idle, of the server and all its children
MOST_MS = 300.0  # that 19 of 20 of the bystander's requests take


@dataclass(frozen=True)
class Line:
    attack: str
    seconds: float
    measured: Measured
    statuses: dict[str, int]
    wrong: list[str]  # answers to the attackers that are the server's fault
    kept: int  # datasets that were acknowledged so far
    lost: list[str]

    def broken(self, *, timed: bool = True) -> list[str]:
        """The limits that were passed, in words; not `timed` where others use the machine, for then waiting says little."""
        m = self.measured
        found = [*self.wrong, *(f"bystander: {what}" for what in m.refused)]
        found += [f"lost {one}" for one in self.lost]
        found += [f"{m.peak_mb:.0f} MB above idle, by process {m.processes_mb}"] if not m.peak_mb <= MOST_MB else []
        found += [f"p95 {m.p95_ms:.0f} ms"] if timed and not m.p95_ms <= MOST_MS else []
        return found


def campaign(
    folder: Path, *, database: str | None = None, quick: bool = False, only: list[str] | None = None
) -> Iterator[Line]:
    """A line for every attack, as soon as it is over."""
    with ExitStack() as held:
        scene, pid = held.enter_context(attacked_server(folder, database=database, quick=quick))
        watcher = Watcher(scene, pid)
        held.callback(watcher.close)
        while not watcher.searches():
            time.sleep(0.1)
        settle = 0.5 if quick else SETTLE_SECONDS
        time.sleep(settle)
        nobody = watcher.between(0.0, time.time())
        idle = nobody.least_mb  # the server and one that searches: not what learns from sketches now and then
        yield Line(f"(nobody: {idle:.0f} MB)", settle, nobody.above(idle), {}, [], len(scene.kept), scene.lost())
        for name in only or ATTACKS:
            scene.statuses.clear()
            scene.wrong.clear()
            started = time.time()
            ATTACKS[name](scene)
            time.sleep(settle)
            ended = time.time()
            measured = watcher.between(started, ended).above(idle)
            statuses, wrong = dict(scene.statuses), list(scene.wrong)
            yield Line(name, ended - started, measured, statuses, wrong, len(scene.kept), scene.lost())


# ------------------------------------------------------------------------------------------------ the table

WIDE = "{:22} {:>5} {:>5} {:>7} {:>6} {:>6} {:>14} {:>9}  {:7}  {}"
HEAD = WIDE.format("attack", "s", "MB", "p95 ms", "most", "asked", "searches", "kept", "verdict", "answers")


def shown(line: Line) -> str:
    m, broken = line.measured, line.broken()
    searches = f"{m.searches} in {m.slowest_search_s:.1f} s" if m.searches else "0"
    statuses = " ".join(f"{status}x{count}" for status, count in sorted(line.statuses.items()))
    numbers = (f"{line.seconds:.0f}", f"{m.peak_mb:+.0f}", f"{m.p95_ms:.0f}", f"{m.slowest_ms:.0f}", m.requests)
    kept, verdict = f"{line.kept - len(line.lost)}/{line.kept}", "BROKEN" if broken else "held"
    told = WIDE.format(line.attack, *numbers, searches, kept, verdict, statuses)
    return "\n    ".join([told, *broken])


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--postgres", action="store_true", help="on a real Postgres, from a wheel, instead of SQLite")
    asked.add_argument("--quick", action="store_true", help="smaller files, and shorter")
    asked.add_argument("--only", action="append", choices=ATTACKS, metavar="NAME", help="this attack; may be given again")
    chosen = asked.parse_args()
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="saibot-attacks-")))
        database = None
        if chosen.postgres:
            from tests.support.postgres import running_postgres

            database = held.enter_context(running_postgres())()
        print(HEAD, flush=True)
        lines = []
        for line in campaign(folder, database=database, quick=chosen.quick, only=chosen.only):
            if not lines:  # server and bystander run: attackers have machines of their own, and should not take this one
                os.nice(10)
            print(shown(line), flush=True)
            lines.append(line)
    broken = sum(bool(line.broken()) for line in lines)
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    where, limits = "Postgres" if chosen.postgres else "SQLite", f"{MOST_MB:.0f} MB, p95 {MOST_MS:.0f} ms"
    print(f"{len(lines) - 1} attacks on {where}, {broken} broke a limit ({limits}); load of the machine {load}")
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
