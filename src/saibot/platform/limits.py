"""How often a caller may ask: a bucket of requests that refills steadily, one for reading and one for changing things.

A caller is an account, with all its tokens, in a browser or by the HTTP interface; without an account it is an address.
"""

from __future__ import annotations

import threading
import time
from typing import Literal

from saibot.platform.accounts import Caller
from saibot.platform.errors import TooManyRequests
from saibot.platform.settings import Settings

Kind = Literal["read", "write"]
MOST_CALLERS = 100_000


class Limits:
    """`spend` raises TooManyRequests, with the seconds to wait, when the caller's bucket is empty."""

    def __init__(self, settings: Settings) -> None:
        self._rates: dict[Kind, float] = {"read": settings.read_rate, "write": settings.write_rate}
        self._bursts: dict[Kind, float] = {"read": float(settings.read_burst), "write": float(settings.write_burst)}
        self._buckets: dict[tuple[str, str, Kind], tuple[float, float]] = {}  # requests left, and when that was
        self._lock = threading.Lock()

    def spend(self, caller: Caller, address: str | None, kind: Kind) -> None:
        rate, burst = self._rates[kind], self._bursts[kind]
        bucket = (*(("account", caller.name) if caller.signed_in else ("address", address or "unknown")), kind)
        moment = time.monotonic()
        with self._lock:
            left, when = self._buckets.get(bucket, (burst, moment))
            left = min(burst, left + (moment - when) * rate)
            if left < 1:
                raise TooManyRequests((1 - left) / rate)
            if len(self._buckets) >= MOST_CALLERS:
                self._forget_the_full(moment)
            self._buckets[bucket] = (left - 1, moment)

    def _forget_the_full(self, moment: float) -> None:
        self._buckets = {
            bucket: (left, when)
            for bucket, (left, when) in self._buckets.items()
            if left + (moment - when) * self._rates[bucket[2]] < self._bursts[bucket[2]]
        }
