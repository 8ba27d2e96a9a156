"""Key domains that were read last, as long as they have not too many keys together: a key takes 80 bytes in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock

from saibot.domains.domain import KeyDomain

REMEMBERED_KEYS = 2_000_000


class RememberedDomains:
    """`get` and `put` by name, of a content that `stamp` tells from others under the same name. Safe under threads."""

    def __init__(self, most: int = REMEMBERED_KEYS) -> None:
        self.most = most
        self._kept: OrderedDict[str, tuple[Hashable, KeyDomain]] = OrderedDict()
        self._lock = Lock()

    def get(self, name: str, stamp: Hashable = None) -> KeyDomain | None:
        with self._lock:
            known = self._kept.get(name)
            if known is None or known[0] != stamp:
                return None
            self._kept.move_to_end(name)
            return known[1]

    def put(self, name: str, domain: KeyDomain, stamp: Hashable = None) -> None:
        """One that alone has too many keys is not kept."""
        with self._lock:
            self._kept.pop(name, None)
            if len(domain) > self.most:
                return
            self._kept[name] = stamp, domain
            while sum(len(kept) for _, kept in self._kept.values()) > self.most:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
