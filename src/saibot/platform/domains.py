"""Key domains that providers register: public lists of keys under an id and a version, fixed for good.

The row in the database counts; the keys lie in the file store by digest. A copy of every domain is kept beside the shards,
in the form that search reads, and is made anew where it is missing.
"""

from __future__ import annotations

import json
import re
import threading
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from cachetools import LRUCache
from sqlalchemy import Connection, delete, func, insert, select
from sqlalchemy.engine import RowMapping

from saibot.domains import DomainRegistry, UnknownDomain
from saibot.domains.csv_text import domain_from_csv, domain_to_csv
from saibot.domains.file import card_of, read_domain, write_domain
from saibot.domains.generated import PREFIXES
from saibot.errors import InvalidDomain
from saibot.platform.accounts import Caller
from saibot.platform.audit_log import Trail
from saibot.platform.clock import now
from saibot.platform.describe import plain
from saibot.platform.errors import Conflict, NotAllowed, NotFound, OverQuota, Unusable
from saibot.platform.pagination import Page, Place
from saibot.platform.settings import Settings
from saibot.platform.storage.database import Database
from saibot.platform.storage.files import FileStore
from saibot.platform.storage.tables import domains, removed_domains, terms
from saibot.platform.validation import has_control_characters
from saibot.sketch import KeyDomain
from saibot.wire import Domain

ID = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$"
MAX_LEVELS = 20
REMEMBERED_BYTES = 64 << 20


class RegisteredDomains:
    """Register, list, show, and give out the keys."""

    def __init__(self, database: Database, files: FileStore, trail: Trail, settings: Settings, folder: Path) -> None:
        self._database, self._files, self._trail, self._settings = database, files, trail, settings
        self.registry = DomainRegistry(folder)
        self._copied: frozenset[tuple[str, int, str]] | None = None  # id, version, digest of those whose copies are made
        self._texts: LRUCache[str, bytes] = LRUCache(REMEMBERED_BYTES, getsizeof=len)  # as CSV, by digest
        self._texts_lock = threading.Lock()  # held while one is made: fifty who ask at once cost as much as one

    def register(self, caller: Caller, id: str, version: int, content: bytes) -> tuple[Domain, bool]:
        """The domain's facts, and whether it is new."""
        caller.need("provider")
        if not re.fullmatch(ID, id):
            raise Unusable(
                "the id of a key domain has 1 to 100 letters, digits, dots, dashes, colons or underscores.",
                hint="Choose an id like `us-county-fips`.",
            )
        if id.startswith(PREFIXES):
            raise Unusable(f"{id!r} spells out its own keys and needs no registration.", hint="Use it as it is.")
        domain = read_csv(content, id=id, version=version)
        card = card_of(domain)
        present = self._row(id, version)
        if present is None:
            with self._naming(caller, domain.digest):
                present = self._enter(caller, domain, write_domain(domain, card))
        if present is not None:
            if present["digest"] != domain.digest:
                raise Conflict(
                    f"the key domain {id!r} version {version} is registered with other keys or parents.",
                    hint="An id and version mean one list of keys for good: register yours as the next version.",
                )
            return _shown(present), False
        self.registry.register(domain)
        row = self._row(id, version)
        assert row is not None
        return _shown(row), True

    def list(self, place: Place, limit: int) -> Page:
        query = select(domains).order_by(domains.c.id, domains.c.version).limit(limit + 1)
        if place is not None:
            id, version = place
            query = query.where((domains.c.id > id) | ((domains.c.id == id) & (domains.c.version > version)))
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        more = [rows[limit - 1]["id"], rows[limit - 1]["version"]] if len(rows) > limit else None
        return Page([_shown(row) for row in rows[:limit]], more)

    def show(self, id: str, version: int) -> Domain:
        row = self._row(id, version)
        if row is None:
            raise NotFound(f"no key domain {id!r} version {version} is registered.", hint="GET /v1/domains lists them.")
        return _shown(row)

    def file(self, id: str, version: int) -> bytes:
        """The keys as CSV, made once and remembered as long as there is room."""
        digest = self.show(id, version).digest
        with self._texts_lock:
            known = self._texts.get(digest)
            if known is None:
                known = domain_to_csv(self._read(digest))
                with suppress(ValueError):  # larger than the whole memory for them
                    self._texts[digest] = known
        return known

    def remove(self, caller: Caller, id: str, version: int) -> None:
        """Forget a domain that no dataset names; by whoever registered it, or an admin."""
        row = self._row(id, version)
        if row is None:
            raise NotFound(f"no key domain {id!r} version {version} is registered.", hint="GET /v1/domains lists them.")
        if not caller.has("admin"):
            caller.need("provider")
            if row["account"] != caller.name:
                raise NotAllowed("only whoever registered a key domain, or an admin, removes it.", hint="Ask them.")
        with self._naming(caller, row["digest"]):
            with self._database.write() as connection:
                used = select(func.count()).select_from(terms).where(terms.c.term == f"d:{plain(id)}")
                if connection.execute(used).scalar_one():
                    raise Conflict(f"datasets here have the key domain {id!r}.", hint="It can go when they are withdrawn.")
                connection.execute(delete(domains).where(domains.c.id == id, domains.c.version == version))
                gone = {"digest": row["digest"], "account": row["account"], "removed": now()}
                connection.execute(insert(removed_domains).values(id=id, version=version, **gone))
                self._trail.note(connection, caller.name, "remove domain", f"{id}/{version}", {"digest": row["digest"]})
            if not self.known(row["digest"]):
                self._files.delete(file_name(row["digest"]))
        with suppress(UnknownDomain):  # another call of this was faster
            self.registry.remove(id, version)
        with self._texts_lock:
            self._texts.pop(row["digest"], None)

    def get(self, id: str, version: int) -> KeyDomain:
        return self._read(self.show(id, version).digest)

    def known(self, digest: str) -> bool:
        with self._database.read() as connection:
            found = connection.execute(select(func.count()).select_from(domains).where(domains.c.digest == digest))
            return bool(found.scalar_one())

    def keep_in_step(self) -> None:
        """Copies of what other servers registered or removed since the last call of this."""
        if self._registered() != self._copied:
            self.restore_copies()

    def restore_copies(self) -> None:
        """Make the copies beside the shards what the database says."""
        registered = self._registered()
        wanted = {(id, version): digest for id, version, digest in registered}
        have = {(card.id, card.version): card.digest for card in self.registry.entries()}
        for name in self.registry.damaged():
            (self.registry.folder / name).unlink(missing_ok=True)
        for (id, version), digest in have.items():
            if wanted.get((id, version)) != digest:
                with suppress(UnknownDomain):
                    self.registry.remove(id, version)
        missing = False
        for (id, version), digest in wanted.items():
            if have.get((id, version)) != digest:
                try:
                    self.registry.register(self._read(digest, id=id, version=version))
                except FileNotFoundError:  # told by whoever brings files and database together
                    missing = True
        self._copied = None if missing else registered

    # -------------------------------------------------------------------------------------------- inside

    def _naming(self, caller: Caller, digest: str) -> AbstractContextManager[None]:
        """Two ids may name one file; whoever deletes it after a failure must not meet somebody who is about to name it."""
        return self._database.holding(f"account {caller.name}", f"domain {digest}")

    def _registered(self) -> frozenset[tuple[str, int, str]]:
        with self._database.read() as connection:
            rows = connection.execute(select(domains.c.id, domains.c.version, domains.c.digest))
            return frozenset((row.id, row.version, row.digest) for row in rows)

    def _row(self, id: str, version: int) -> RowMapping | None:
        with self._database.read() as connection:
            query = select(domains).where(domains.c.id == id, domains.c.version == version)
            return connection.execute(query).mappings().first()

    def _enter(self, caller: Caller, domain: KeyDomain, content: bytes) -> RowMapping | None:
        """The row of somebody who was faster, if there is one. Who may not register leaves no file behind."""
        with self._database.read() as connection:
            self._check_quota(connection, caller, len(domain))
        self._files.put(file_name(domain.digest), content)
        try:
            return self._insert(caller, domain)
        except BaseException:
            with suppress(Exception):  # what stays behind is set aside at the next start
                if not self.known(domain.digest):
                    self._files.delete(file_name(domain.digest))
            raise

    def _check_quota(self, connection: Connection, caller: Caller, keys: int) -> None:
        used = select(func.coalesce(func.sum(domains.c.size), 0)).where(domains.c.account == caller.name)
        if int(connection.execute(used).scalar_one()) + keys > self._settings.keys_per_provider:
            raise OverQuota(
                f"the key domains of {caller.name} would have more than {self._settings.keys_per_provider:,} keys.",
                hint="Remove domains that are no longer needed, or ask the platform's admin for more.",
            )
        count = select(func.count()).select_from(domains).where(domains.c.account == caller.name)
        if connection.execute(count).scalar_one() >= self._settings.domains_per_provider:
            raise OverQuota(
                f"{caller.name} has registered {self._settings.domains_per_provider:,} key domains, the most allowed.",
                hint="Use a domain that is registered, or ask the platform's admin for more.",
            )

    def _take_back(self, connection: Connection, caller: Caller, domain: KeyDomain) -> None:
        """A name that was removed means what it meant: whoever had it may register the same keys again, and nobody else."""
        named = (removed_domains.c.id == domain.id) & (removed_domains.c.version == domain.version)
        before = connection.execute(select(removed_domains).where(named)).mappings().first()
        if before is not None and (before["digest"], before["account"]) != (domain.digest, caller.name):
            raise Conflict(
                f"the key domain {domain.id!r} version {domain.version} was another list of keys, or another provider's.",
                hint="It was removed, and its name is not given anew: register yours as the next version.",
            )
        connection.execute(delete(removed_domains).where(named))

    def _insert(self, caller: Caller, domain: KeyDomain) -> RowMapping | None:
        """The row of somebody who was faster, if there is one."""
        levels = [name for name, _ in domain.parents]
        row = {
            "id": domain.id,
            "version": domain.version,
            "size": len(domain),
            "digest": domain.digest,
            "keys_digest": domain.keys_digest,
            "levels": json.dumps(levels),
            "account": caller.name,
            "registered": now(),
        }
        with self._database.write() as connection:
            query = select(domains).where(domains.c.id == domain.id, domains.c.version == domain.version)
            present = connection.execute(query).mappings().first()
            if present is not None:
                return present
            self._check_quota(connection, caller, len(domain))
            self._take_back(connection, caller, domain)
            connection.execute(insert(domains).values(row))
            self._trail.note(
                connection, caller.name, "register domain", f"{domain.id}/{domain.version}", {"size": len(domain)}
            )
        return None

    def _read(self, digest: str, *, id: str | None = None, version: int | None = None) -> KeyDomain:
        with self._files.open(file_name(digest)) as file:
            _, domain = read_domain(file.read(), name=digest)
        if id is not None and version is not None and (domain.id, domain.version) != (id, version):
            return KeyDomain(id, version, domain.values, domain.parents)  # two ids may stand for one list
        return domain


def file_name(digest: str) -> str:
    return f"domains/{digest}.arrow"


def read_csv(content: bytes, *, id: str, version: int) -> KeyDomain:
    """A domain that a stranger sent: of few levels, and without characters that command a terminal."""
    domain = domain_from_csv(content, id=id, version=version)
    if any(has_control_characters(line) for line in content.decode("utf-8-sig").splitlines()):
        raise InvalidDomain("the key domain holds control characters.")
    if len(domain.parents) > MAX_LEVELS:
        raise InvalidDomain(f"a key domain has a key column and at most {MAX_LEVELS} columns of parents.")
    return domain


def _shown(row: RowMapping) -> Domain:
    facts = {name: row[name] for name in ("id", "version", "size", "digest", "keys_digest", "registered")}
    return Domain(levels=json.loads(row["levels"]), provider=row["account"], **facts)
