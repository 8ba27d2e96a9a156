"""The registry of public key domains: a directory with one file per id and version.

An id and version mean one list of keys for good. Files appear whole or not at all, by a link that fails where the name is
taken, so two processes cannot both be first; nothing is ever overwritten. There is no other state: a copy of the directory
is a copy of the registry.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import RLock
from urllib.parse import quote

import pyarrow as pa

from saibot.domains.domain import KeyDomain
from saibot.domains.errors import DomainConflict, UnknownDomain
from saibot.domains.file import DomainCard, card_of, read_card, read_domain, read_sample, write_domain
from saibot.domains.remembered_domains import RememberedDomains
from saibot.errors import InvalidDomain
from saibot.safe_arrow import mapped
from saibot.safe_file import create_safely, sync_folder

SUFFIX = ".domain.arrow"
SETTLED_NS = 1_000_000_000


class DomainRegistry:
    """`DomainRegistry(folder)`: register, get, find, entries, remove. Safe under threads and processes."""

    def __init__(self, folder: Path, *, most: int | None = None) -> None:
        """Where `most` is given, the keys of domains with more of them are never read: as if those were not there."""
        self.folder, self._most = folder, most
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = RLock()
        self._cards: dict[str, tuple[tuple[int, int, int], DomainCard | None]] = {}  # by file name; None: damaged
        self._by_digest: dict[str, str] = {}
        self._scanned: int | None = None  # the folder's time at the last look
        self._loaded = RememberedDomains() if most is None else RememberedDomains(2 * most)

    def register(self, domain: KeyDomain) -> DomainCard:
        """Register a domain: its keys and all its parents, whichever are in use. The same again changes nothing."""
        card = card_of(domain)
        return self.enter(card, lambda: write_domain(domain, card))

    def enter(self, card: DomainCard, content: Callable[[], bytes | memoryview]) -> DomainCard:
        """The same of a domain whose file was made already."""
        path = self.folder / file_name(card.id, card.version)
        if not path.exists():
            create_safely(path, content())  # or somebody else was faster: then theirs is compared
        present = self._read_card(path.name)
        if present is None:
            raise UnknownDomain(f"{card.id!r} version {card.version}", hint="It was removed meanwhile; try again.")
        if card.digest != present.digest:
            raise DomainConflict(card.id, card.version, registered=present.digest, offered=card.digest)
        return present

    def sample(self, digest: str, *, most: int) -> tuple[DomainCard, list[list[str]]] | None:
        """What is known about the domain of this digest, and its first lines, each a key and its parents."""
        card = self.entry(digest)
        if card is None:
            return None
        name = file_name(card.id, card.version)
        try:
            return read_sample(mapped(str(self.folder / name)), name=name, most=most)
        except (OSError, pa.ArrowException, InvalidDomain):
            return None

    def get(self, id: str, version: int | None = None) -> KeyDomain:
        """The domain with all its parents, none in use; the latest version where none is named."""
        if version is None:
            versions = [card.version for card in self.entries() if card.id == id]
            if not versions:
                raise UnknownDomain(repr(id), hint=_similar(id, {card.id for card in self.entries()}))
            version = max(versions)
        found = self._load(file_name(id, version))
        if found is None:
            known = sorted(card.version for card in self.entries() if card.id == id)
            hint = f"There is version {', '.join(map(str, known))}." if known else None
            raise UnknownDomain(f"{id!r} version {version}", hint=hint)
        return found

    def find(self, digest: str) -> KeyDomain | None:
        """The registered domain that this digest is of: of its keys and parents, or else of its keys alone."""
        card = self.entry(digest)
        return None if card is None else self._load(file_name(card.id, card.version))

    def entry(self, digest: str) -> DomainCard | None:
        """What is known about that domain without reading its keys."""
        with self._lock:
            card = self._entry(digest)
            if card is None:
                self._scan()
                card = self._entry(digest)
            return card

    def entries(self) -> tuple[DomainCard, ...]:
        """All domains by id and version, keys not read. Damaged files are left out; `damaged()` names them."""
        with self._lock:
            self._scan()
            cards = [card for _, card in self._cards.values() if card is not None]
        return tuple(sorted(cards, key=lambda card: (card.id, card.version)))

    def damaged(self) -> tuple[str, ...]:
        """Names of files that should hold a domain and do not."""
        with self._lock:
            self._scan()
            return tuple(sorted(name for name, (_, card) in self._cards.items() if card is None))

    def remove(self, id: str, version: int) -> None:
        """Forget a domain. Sketches that speak of it stay as they are; they can no longer be matched by values."""
        try:
            (self.folder / file_name(id, version)).unlink()
        except FileNotFoundError:
            raise UnknownDomain(f"{id!r} version {version}") from None
        sync_folder(self.folder)

    # -------------------------------------------------------------------------------------------- inside

    def _entry(self, digest: str) -> DomainCard | None:
        name = self._by_digest.get(digest)
        try:
            return None if name is None else self._read_card(name)
        except InvalidDomain:
            return None

    def _scan(self) -> None:
        """Look at every file that is new or changed since the last look, if the folder has changed at all."""
        changed = self.folder.stat().st_mtime_ns
        if changed == self._scanned:
            return
        # A folder's time has ticks: one that is only just past may hide a change of the same tick.
        settled = changed < time.time_ns() - SETTLED_NS
        with os.scandir(self.folder) as listing:
            present = {item.name for item in listing if item.name.endswith(SUFFIX) and not item.name.startswith(".")}
        for name in present:
            try:
                self._read_card(name)
            except InvalidDomain:
                self._cards[name] = (_stamp(self.folder / name) or (0, 0, 0), None)
        for name in self._cards.keys() - present:
            del self._cards[name]
        sound = [(name, card) for name, (_, card) in sorted(self._cards.items()) if card is not None]
        self._by_digest = {card.keys_digest: name for name, card in sound} | {card.digest: name for name, card in sound}
        self._scanned = changed if settled else None

    def _read_card(self, name: str) -> DomainCard | None:
        path = self.folder / name
        stamp = _stamp(path)
        if stamp is None:
            return None
        with self._lock:
            known = self._cards.get(name)
            if known is not None and known[0] == stamp and known[1] is not None:
                return known[1]
        try:
            card = read_card(mapped(str(path)), name=name)
        except FileNotFoundError:
            return None
        except (OSError, pa.ArrowException):
            raise InvalidDomain(f"the key domain file {name} cannot be read.") from None
        _check_place(card, name)
        with self._lock:
            self._cards[name] = (stamp, card)
        return card

    def _load(self, name: str) -> KeyDomain | None:
        path = self.folder / name
        stamp = _stamp(path)
        if stamp is None:
            return None
        known = self._loaded.get(name, stamp)
        if known is not None:
            return known
        try:
            content = mapped(str(path))
            if self._most is not None and read_card(content, name=name).size > self._most:
                return None
            card, domain = read_domain(content, name=name)
        except FileNotFoundError:
            return None
        _check_place(card, name)
        self._loaded.put(name, domain, stamp)
        return domain


def file_name(id: str, version: int) -> str:
    """One name for each id and version, legible where the id is: `us-county@2.domain.arrow`."""
    legible = quote(id, safe=" ()+,=", errors="surrogatepass") or "%"
    if legible.startswith("."):
        legible = "%2E" + legible[1:]
    if len(legible) > 150:
        legible = f"{legible[:100]}~{hashlib.sha256(legible.encode()).hexdigest()[:32]}"
    return f"{legible}@{version}{SUFFIX}"


def _check_place(card: DomainCard, name: str) -> None:
    if file_name(card.id, card.version) != name:
        raise InvalidDomain(f"the key domain file {name} holds {card.id!r} version {card.version}: it was moved or renamed.")


def _similar(id: str, known: set[str]) -> str | None:
    near = sorted(other for other in known if id.casefold() in other.casefold() or other.casefold() in id.casefold())
    return f"There is {', '.join(map(repr, near[:3]))}." if near else None


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
