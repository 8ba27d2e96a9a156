"""A search that runs on a platform: watch it, wait for it, cancel it, read its result."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx

from saibot.client import unpacking
from saibot.client.answers import Progress, read_answer
from saibot.client.documents import RESULT
from saibot.client.errors import PlatformError, PlatformUnreachable, SearchFailed
from saibot.client.transport import ATTEMPTS, Wire
from saibot.errors import SaibotError
from saibot.wire import Result, Search

POLLED = 1.0  # seconds between looks where events do not come through


class Job:
    """One search of this requester. `wait` returns when it is over; `result` is its document."""

    def __init__(self, wire: Wire, state: Search) -> None:
        self._wire = wire
        self.state = state

    @property
    def id(self) -> str:
        return self.state.id

    def refresh(self) -> Search:
        """How it stands now."""
        self.state = read_answer(Search, self._wire.json("GET", f"/v1/searches/{self.id}"))
        return self.state

    def wait(self, progress: Progress = lambda stage, part: None, *, timeout: float | None = None) -> Search:
        """Follow its events until it is over; where they break off, look again and go on. Raises SearchFailed."""
        end = None if timeout is None else time.monotonic() + timeout
        lost = 0
        while not self.state.over:
            before = self.state
            try:
                for state in self._events():
                    _in_time(end, self.id)
                    if state is None:  # still there
                        continue
                    self.state = state
                    progress(state.progress.stage or state.status, state.progress.part)
                    if state.over:
                        break
                else:
                    self.refresh()
                lost = 0
            except PlatformUnreachable as problem:
                lost = 1 if self.state != before else lost + 1
                if lost >= ATTEMPTS:
                    raise self._lost(problem) from None
                self._wire.pause(lost)
                continue
            if not self.state.over and self.state == before:
                time.sleep(POLLED)
            _in_time(end, self.id)
        if self.state.status != "done":
            raise _why(self.state)
        return self.state

    def result(self) -> Result:
        """What a search that is done has found."""
        return Result.read(self._wire.json("GET", f"/v1/searches/{self.id}/result", most=RESULT), "the platform's answer")

    def cancel(self) -> None:
        """Stop it, or remove its result where it is over."""
        self._wire.send("DELETE", f"/v1/searches/{self.id}")

    def __repr__(self) -> str:
        return f"Job({self.id}, {self.state.status})"

    def _lost(self, problem: PlatformUnreachable) -> PlatformUnreachable:
        """The search was accepted: whoever knows its id can still learn how it ended."""
        later = f"When it is back, `saibot searches result {self.id}` says how the search ended"
        return PlatformUnreachable(problem.message, hint=f"{later}; asking again with the same sketches costs no budget.")

    def _events(self) -> Iterator[Search | None]:
        with self._wire.stream(f"/v1/searches/{self.id}/events", headers={"Accept": "text/event-stream"}) as response:
            try:
                for document in read_events(lambda: unpacking.lines(response)):
                    yield None if document is None else read_answer(Search, document)
            except httpx.TransportError:
                raise PlatformUnreachable("the platform's events broke off.") from None


def read_events(lines: Callable[[], Iterator[str]]) -> Iterator[Any]:
    """The JSON documents of server-sent events, and None for each line that says nothing: whoever waits can stop there.

    Comments, other fields and unreadable data are passed over, and a document that does not end is refused.
    """
    data: list[str] = []
    length = 0
    for line in lines():
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
            length += len(line)
            if length > unpacking.LONGEST_EVENT:
                raise unpacking.endless_events()
        elif line or not data:
            yield None
        else:
            with suppress(ValueError, RecursionError):
                yield json.loads("\n".join(data))
            data, length = [], 0


def _in_time(end: float | None, id: str) -> None:
    if end is not None and time.monotonic() > end:
        raise SaibotError(
            f"the search {id} is still under way.", hint="It goes on without you; ask for its result later by its id."
        )


def _why(state: Search) -> PlatformError:
    if state.status == "cancelled":
        return SearchFailed(f"the search {state.id} was cancelled.")
    if state.error is None:
        return SearchFailed(f"the search {state.id} failed: the platform does not say why.")
    said = state.error
    return SearchFailed(f"the search {state.id} failed: {said.message}", hint=said.hint, code=said.code)
