"""A worker process as the platform sees it: give it a task, hear how it goes, stop it, and notice when it dies."""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Literal

from saibot.platform.jobs.lacking import lacking
from saibot.platform.jobs.nursery import Child, GivenUp, nursery

LOOK_SECONDS = 0.05
TASKS_PER_WORKER = 200  # of one that stays
LONGEST_WORDS = 200  # that are shown of what it is doing
LONGEST_LINE = 4 << 20  # that a worker says; more is a mistake, or a worker that was taken over


@dataclass(frozen=True)
class Outcome:
    """How a task ended; `error` in the one error shape's inner form where it did not succeed."""

    status: Literal["done", "failed", "cancelled"]
    error: dict[str, Any] | None = None
    died: bool = False
    answer: dict[str, Any] = field(default_factory=dict)


class WorkerProcess:
    """Forked when a task comes, and gone when it is done, with all that it had in memory.

    Only where it `may_stay`, and has got hold of a GPU or a cluster, which takes long, is it there for the next task. What
    it says is not to be believed: it may have been taken over by what it read.
    """

    def __init__(self, *, memory: int | None = None, may_stay: bool = False) -> None:
        """`memory` bounds the bytes that the process may allocate; files that it maps do not count."""
        self._memory, self._may_stay = memory, may_stay
        self._process: Child | None = None
        self._buffer = b""
        self.tasks = 0
        self.last_used = time.monotonic()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def run(
        self,
        task: dict[str, Any],
        *,
        progress: Callable[[str, float | None], None],
        cancelled: Callable[[], bool],
        seconds: float,
        give_way: Callable[[], float] = lambda: 0.0,
    ) -> Outcome:
        """Run one task to its end, whatever end that is.

        `give_way` is called again and again, and says for how many seconds the process stood still since; they do not count.
        """
        until = time.monotonic() + seconds
        told = task | {"seconds": seconds} | ({"stays": True} if self._may_stay else {})
        outcome = None
        try:
            self._begin(json.dumps(told).encode() + b"\n", lambda: cancelled() or time.monotonic() > until)
            while outcome is None:
                if cancelled():
                    return Outcome("cancelled")
                until += give_way()
                if time.monotonic() > until:
                    return _too_long(seconds)
                line = self._line()
                if line is not None:
                    outcome = self._death() if line == b"" else self._heard(line, progress)
        except GivenUp:
            return Outcome("cancelled") if cancelled() else _too_long(seconds)
        except OSError:
            return self._death()
        finally:
            self.last_used = time.monotonic()
            if outcome is None:  # whatever it does, nobody waits for it, or it does not say what workers say
                self.stop()
        return outcome

    def _heard(self, line: bytes, progress: Callable[[str, float | None], None]) -> Outcome | None:
        """How the task ended, if this line says so."""
        kind, message = _said(line)
        if kind is None:
            self.stop()
            return Outcome("failed", _broken({}))
        if kind == "not_confined":
            lacking.heard(message["not_confined"])
        elif kind == "stage":
            part = message["part"]
            progress(_one_line(message["stage"]), None if part is None else min(max(float(part), 0.0), 1.0))
        if kind not in _LAST_WORDS:
            return None
        self.tasks += 1
        if not (self._may_stay and message["holds_much"]) or self.tasks >= TASKS_PER_WORKER:
            self.stop()
        if kind == "done":
            return Outcome("done", answer=message)
        if kind == "refused":
            return Outcome("failed", message["refused"])
        return Outcome("failed", _broken({"problem": message["broken"], "at": message["at"]}))

    def pause(self) -> None:
        """Stand still until `go_on`; the system gives the process no time."""
        if self._process is not None:
            self._process.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        if self._process is not None:
            self._process.signal(signal.SIGCONT)

    def stop(self) -> None:
        """End the process now; the next task has another."""
        self._end(kill=True)

    def _begin(self, task: bytes, given_up: Callable[[], bool]) -> None:
        try:
            self._start(given_up).tell(task)
        except OSError:
            if not self.tasks:
                raise
            self.stop()  # it stayed, and died meanwhile
            self._start(given_up).tell(task)

    def _start(self, given_up: Callable[[], bool] = lambda: False) -> Child:
        if self._process is None:
            self.tasks = 0
            self._process = nursery().child(memory=self._memory, given_up=given_up)
        return self._process

    def _end(self, *, kill: bool) -> int | None:
        process, self._process, self._buffer = self._process, None, b""
        return None if process is None else process.end(kill=kill)

    def _line(self) -> bytes | None:
        """The next line; None if there is none yet, empty if the process has ended."""
        assert self._process is not None
        if b"\n" not in self._buffer:
            handle = self._process.stdout
            with selectors.DefaultSelector() as ready:
                ready.register(handle, selectors.EVENT_READ)
                if not ready.select(LOOK_SECONDS):
                    return None
            part = os.read(handle, 1 << 16)
            if not part or len(self._buffer) > LONGEST_LINE:
                return b""
            self._buffer += part
            if b"\n" not in part:
                return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _death(self) -> Outcome:
        code = self._end(kill=False)
        how = "ended"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        hint = "Ask again. If it happens again the search may need more memory than the platform has."
        return Outcome("failed", _error("worker_died", f"the process of this search {how}.", hint), died=True)


# What workers say, by the word that tells one kind from another; the first that is there. How a task that is done answers is
# its own affair.
_SHAPES: dict[str, dict[str, Any]] = {
    "done": {"over": bool, "holds_much": bool},
    "refused": {"over": bool, "holds_much": bool, "refused": dict},
    "broken": {"over": bool, "holds_much": bool, "broken": str, "at": list},
    "stage": {"stage": str, "part": (int, float, NoneType)},
    "not_confined": {"not_confined": list},
    "ready": {},
}
_LAST_WORDS = ("done", "refused", "broken")
_ERROR = {"code": str, "message": str, "hint": str, "details": dict}


def _said(line: bytes) -> tuple[str | None, dict[str, Any]]:
    """Of which kind it is what a line says, and what it says; no kind where workers say no such thing."""
    nothing = None, dict[str, Any]()
    try:
        found = json.loads(line, parse_constant=_no_number)
        json.dumps(found, ensure_ascii=False).encode()  # half a letter could be sent to nobody
    except (ValueError, RecursionError):
        return nothing
    kind = next((word for word in _SHAPES if isinstance(found, dict) and word in found), None)
    if kind is None or not _has(found, _SHAPES[kind]) or (kind == "refused" and not _has(found["refused"], _ERROR)):
        return nothing
    if kind == "stage" and isinstance(found["part"], int | float) and not abs(found["part"]) <= 1e9:
        return nothing
    return kind, found


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number")


def _one_line(text: object) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in str(text)[:LONGEST_WORDS])


def _has(found: dict[str, Any], shapes: dict[str, Any]) -> bool:
    return all(name in found and isinstance(found[name], shape) for name, shape in shapes.items())


def _too_long(seconds: float) -> Outcome:
    hint = "Search with fewer steps or without hops, or ask the platform's admin for more time."
    return Outcome("failed", _error("too_long", f"the search took longer than {seconds:g} s.", hint))


def _broken(details: dict[str, Any]) -> dict[str, Any]:
    hint = "Ask again; if it stays, tell the platform's admin the id of the search."
    return _error("internal", "the search failed by a mistake of the platform.", hint) | {"details": details}


def _error(code: str, message: str, hint: str) -> dict[str, Any]:
    return {"code": code, "message": message, "hint": hint, "details": {}}
