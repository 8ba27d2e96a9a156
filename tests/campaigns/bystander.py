"""Somebody who has nothing to do with an attack: browses and searches all the while, and notes how long each answer takes.

    python -m tests.campaigns.bystander

in a process of its own, so that the attackers' own work is not measured as waiting. It is told what to do by one line of
JSON, and says what it saw in lines: `["seen", moment, milliseconds, status, what]`, `["search", moment, seconds, status,
error]` and `["memory", moment, {process: MB}]`, the latter of the server and all its children, without what they map from
files. It ends with its input.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

PAUSE_SECONDS = 0.04  # 25 requests a second: half of what one caller may ask
SEARCH_SECONDS = 3.0
LOOK_SECONDS = 0.02
ADDRESS = "127.0.0.3"  # its own: the attackers come from others


def own_memory_mb(pid: int) -> dict[str, float]:
    """MB that are the process's own, and each of its children's: what is mapped from files can be dropped at any time.

    What n processes share since one was forked from the other is there once: a part in n of it is each one's.
    """
    found: dict[str, float] = {}
    with suppress(OSError, ValueError):  # a process that has ended meanwhile
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        found[str(pid)] = sum(int(line.split()[1]) for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:"))) / 1024
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                for child in (task / "children").read_text().split():
                    found |= own_memory_mb(int(child))
    return found


def say(*line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def watch(pid: int) -> None:
    while True:
        say("memory", time.time(), own_memory_mb(pid))
        time.sleep(LOOK_SECONDS)


class Bystander:
    def __init__(self, address: str, token: str, train: str, target: str) -> None:
        wire = httpx.HTTPTransport(local_address=ADDRESS)
        self._client = httpx.Client(base_url=address, transport=wire, timeout=60)
        self._own = {"Authorization": f"Bearer {token}"}
        self._train, self._options = bytes.fromhex(train), {"options": json.dumps({"target": target, "steps": 1})}
        self._ids: list[str] = []
        self._search: str | None = None

    def ask(self, what: str, method: str, path: str, **more: Any) -> httpx.Response | None:
        started = time.perf_counter()
        try:
            answer = self._client.request(method, path, **more)
        except httpx.HTTPError as problem:
            say("seen", time.time(), 1000 * (time.perf_counter() - started), type(problem).__name__, what)
            return None
        say("seen", time.time(), 1000 * (time.perf_counter() - started), answer.status_code, what)
        return answer

    def browse(self) -> None:
        """One request after the other, as people do."""
        for round in itertools.count():
            listed = self.ask("list", "GET", "/v1/datasets", params={"limit": 20}, headers=self._own)
            if listed is not None and listed.status_code == 200:
                self._ids = [one["id"] for one in listed.json()["items"]]
            for what, path in (
                ("words", "/v1/datasets?q=known"),
                ("counts", "/v1/facets"),
                ("page", "/"),
                *((("show", f"/v1/datasets/{self._ids[round % len(self._ids)]}"),) if self._ids else ()),
                ("watch", "/v1/searches"),
            ):
                time.sleep(PAUSE_SECONDS)
                self.ask(what, "GET", path, headers=self._own)
            self.keep_searching()
            time.sleep(PAUSE_SECONDS)

    def keep_searching(self) -> None:
        """A search of its own is always under way, or has just ended."""
        if self._search is not None:
            found = self.ask("watch", "GET", f"/v1/searches/{self._search}", headers=self._own)
            if found is None or found.status_code != 200 or found.json()["status"] in ("queued", "running"):
                return
            say("search", time.time(), time.time() - self._asked, found.json()["status"], found.json()["error"])
            self._search = None
            time.sleep(PAUSE_SECONDS)
        elif time.time() > getattr(self, "_asked", 0.0) + SEARCH_SECONDS:
            files = {"train": ("train.saibot", self._train)}
            asked = self.ask("search", "POST", "/v1/searches", files=files, data=self._options, headers=self._own)
            self._asked = time.time()
            self._search = asked.json()["id"] if asked is not None and asked.status_code == 202 else None


def main() -> None:
    told = json.loads(sys.stdin.readline())
    threading.Thread(target=watch, args=(told.pop("pid"),), daemon=True).start()
    threading.Thread(target=Bystander(**told).browse, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
