"""Of one caller's requests so many are worked on at a time. The others wait here, where they hold no thread.

Threads that answer requests are few: whoever asks for something slow many times at once would have all of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Shares:
    """`take` one, and `give_back` it. For the event loop's thread alone."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()
        self._line: dict[str, deque[asyncio.Future[None]]] = {}

    async def take(self, who: str) -> None:
        """Returns when it is this one's turn; first come, first served."""
        if self._taken[who] < self._most:
            self._taken[who] += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.setdefault(who, deque()).append(turn)
        try:
            await turn  # whoever gives a share back hands it on
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(who)
            raise

    @asynccontextmanager
    async def of(self, who: str) -> AsyncIterator[None]:
        await self.take(who)
        try:
            yield
        finally:
            self.give_back(who)

    def give_back(self, who: str) -> None:
        line = self._line.get(who, deque())
        while line:
            turn = line.popleft()
            if not line:
                del self._line[who]
            if not turn.done():
                turn.set_result(None)
                return
        self._taken[who] -= 1
        if self._taken[who] <= 0:
            del self._taken[who]

    def __len__(self) -> int:
        """How many callers are known: those alone who have a share."""
        return len(self._taken)
