"""How often a caller may ask: buckets of requests that refill steadily, for reading, for changing things, and for watching
whether the platform is well.

A caller is an account, with all its tokens, in a browser or by the HTTP interface; without an account it is an address.
Some things are held open for a while, and counted while they are: streams of events, and requests that a proxy passes on.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Literal

from saibot.platform.accounts import Caller
from saibot.platform.errors import TooManyAtOnce, TooManyRequests
from saibot.platform.settings import Settings

Kind = Literal["read", "write", "probe"]
MOST_CALLERS = 100_000


def network_of(address: str) -> str:
    """What one caller holds of the network: an address, of IPv6 a /64, for that is what everybody is given at least."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        return str(found.ipv4_mapped or ip_network((found, 64), strict=False))
    return str(found)


class Limits:
    """`spend` raises TooManyRequests, with the seconds to wait, when the caller's bucket is empty."""

    def __init__(self, settings: Settings) -> None:
        reads, writes = (settings.read_rate, settings.read_burst), (settings.write_rate, settings.write_burst)
        # Whoever asks whether the platform is well must not hear that somebody else at the same address has read much.
        kinds: dict[Kind, tuple[float, int]] = {"read": reads, "write": writes, "probe": reads}
        self._rates: dict[Kind, float] = {kind: rate for kind, (rate, _) in kinds.items()}
        self._bursts: dict[Kind, float] = {kind: float(burst) for kind, (_, burst) in kinds.items()}
        self._buckets: dict[tuple[str, str, Kind], tuple[float, float]] = {}  # requests left, and when that was
        self._lock = threading.Lock()
        self._settings = settings
        self._held: Counter[tuple[str, str, str]] = Counter()

    def spend(self, caller: Caller, address: str | None, kind: Kind) -> None:
        rate, burst = self._rates[kind], self._bursts[kind]
        bucket = (*(("account", caller.name) if caller.signed_in else ("address", network_of(address or "unknown"))), kind)
        moment = time.monotonic()
        with self._lock:
            left, when = self._buckets.get(bucket, (burst, moment))
            left = min(burst, left + (moment - when) * rate)
            if left < 1:
                raise TooManyRequests((1 - left) / rate)
            if len(self._buckets) >= MOST_CALLERS:
                self._forget_the_full(moment)
            self._buckets[bucket] = (left - 1, moment)

    def watch(self, caller: Caller, address: str | None) -> Callable[[], None]:
        """Count a stream of events until what this returns is called; raises TooManyAtOnce."""
        most, of_address = self._settings.streams_per_account, self._settings.streams_per_address
        network = network_of(address or "unknown")
        return self._hold("searches watched", {("account", caller.name): most, ("address", network): of_address})

    def begin(self, address: str | None) -> Callable[[], None]:
        """Count a request until what this returns is called; raises TooManyAtOnce."""
        network = network_of(address or "unknown")
        return self._hold("requests under way", {("address", network): self._settings.connections_per_address})

    def _hold(self, what: str, limits: dict[tuple[str, str], int]) -> Callable[[], None]:
        places = [(what, *who) for who in limits]
        with self._lock:
            for place, most in zip(places, limits.values(), strict=True):
                if self._held[place] >= most:
                    raise TooManyAtOnce(f"this {place[1]} has {most} {what}, the most allowed.")
            self._held.update(places)

        def release() -> None:
            with self._lock:
                nonlocal places
                self._held.subtract(places)
                for place in places:
                    if self._held[place] <= 0:
                        del self._held[place]
                places = []  # it may be called twice

        return release

    def _forget_the_full(self, moment: float) -> None:
        self._buckets = {
            bucket: (left, when)
            for bucket, (left, when) in self._buckets.items()
            if left + (moment - when) * self._rates[bucket[2]] < self._bursts[bucket[2]]
        }
