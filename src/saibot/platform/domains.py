"""Key domains that providers register: public lists of keys under an id and a version, fixed for good.

The row in the database counts; the keys lie in the file store by digest. A copy of every domain is kept beside the shards,
in the form that search reads, and is made anew where it is missing.
"""

from __future__ import annotations

import json
import re
import shutil
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import Connection, delete, func, insert, select
from sqlalchemy.engine import RowMapping

from saibot.domains import DomainRegistry, UnknownDomain
from saibot.domains.csv_text import domain_to_csv
from saibot.domains.file import DomainCard, card_of, read_card, read_domain, write_domain
from saibot.domains.generated import PREFIXES
from saibot.platform.accounts import Caller
from saibot.platform.audit_log import Trail
from saibot.platform.clock import now
from saibot.platform.describe import plain
from saibot.platform.disk_quota import DiskQuota
from saibot.platform.errors import Conflict, NotAllowed, NotFound, OverQuota, Unusable
from saibot.platform.pagination import Page, Place
from saibot.platform.reading import LARGE, PATIENCE, on_disk, read_elsewhere, size_of, write_csv_elsewhere
from saibot.platform.sent_keys import check_size, read_csv
from saibot.platform.settings import Settings
from saibot.platform.storage.database import Database
from saibot.platform.storage.file_names import domain_file_name
from saibot.platform.storage.files import FileStore
from saibot.platform.storage.named_locks import NamedLocks
from saibot.platform.storage.tables import domains, removed_domains, terms
from saibot.safe_file import write_safely
from saibot.sketch import KeyDomain
from saibot.wire import Domain

ID = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$"
SHOWN_KEYS = 200_000  # of a domain that is read for pages, beside answering people


class RegisteredDomains:
    """Register, list, show, and give out the keys."""

    def __init__(
        self, database: Database, files: FileStore, trail: Trail, settings: Settings, folder: Path, quota: DiskQuota
    ) -> None:
        self._database, self._files, self._trail, self._settings = database, files, trail, settings
        self._quota = quota
        self.registry = DomainRegistry(folder, most=SHOWN_KEYS)
        self._copied: frozenset[tuple[str, int, str]] | None = None  # id, version, digest of those whose copies are made
        self._csv = settings.data / "cache" / "domains"
        self._making = NamedLocks()  # by digest, while one is made: fifty who ask at once cost as much as one

    def register(self, caller: Caller, id: str, version: int, content: bytes | Path) -> tuple[Domain, bool]:
        """The domain's facts, and whether it is new."""
        caller.need("provider")
        if not re.fullmatch(ID, id):
            raise Unusable(
                "the id of a key domain has 1 to 100 letters, digits, dots, dashes, colons or underscores.",
                hint="Choose an id like `us-county-fips`.",
            )
        if id.startswith(PREFIXES):
            raise Unusable(f"{id!r} spells out its own keys and needs no registration.", hint="Use it as it is.")
        return self._register(caller, *self._checked(content, id, version))

    def restore(self, caller: Caller, content: bytes) -> tuple[Domain, bool]:
        """The same of a file that was made here before, by whichever limits there were."""
        card, _ = read_domain(content, name="of these keys")
        return self._register(caller, card, content)

    def _register(self, caller: Caller, card: DomainCard, made: bytes | memoryview) -> tuple[Domain, bool]:
        id, version = card.id, card.version
        present = self._row(id, version)
        if present is None:
            with self._naming(caller, card.digest):
                present = self._enter(caller, card, made)
        if present is not None:
            if present["digest"] != card.digest:
                raise Conflict(
                    f"the key domain {id!r} version {version} is registered with other keys or parents.",
                    hint="An id and version mean one list of keys for good: register yours as the next version.",
                )
            return _shown(present), False
        self.registry.enter(card, lambda: made)
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

    def made_csv(self, digest: str) -> BinaryIO | None:
        """The keys as a CSV file, where somebody asked for it before."""
        try:
            return (self._csv / f"{digest}.csv").open("rb")
        except FileNotFoundError:
            return None

    def sweep(self) -> None:
        """Of such files those go, at a start, that a platform was killed over, and those of keys that were removed."""
        wanted = {f"{digest}.csv" for _, _, digest in self._registered()}
        for path in self._csv.iterdir() if self._csv.is_dir() else ():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in wanted:
                path.unlink(missing_ok=True)

    def takes_long(self, digest: str) -> bool:
        """Whether to make that file is work for the process that reads large ones."""
        place = self._files.place(domain_file_name(digest))
        try:
            return place is None or place.stat().st_size > LARGE
        except FileNotFoundError:
            return False

    def csv(self, digest: str) -> BinaryIO:
        """The keys as a CSV file, made where it is not there. Raises Busy where that would take long to begin."""
        path = self._csv / f"{digest}.csv"
        with self._making.holding([digest], patience=PATIENCE):
            found = self.made_csv(digest)
            if found is None:
                self._csv.mkdir(parents=True, exist_ok=True)
                try:
                    self._write_csv(digest, path)
                    found = path.open("rb")
                except FileNotFoundError:
                    raise NotFound("these keys have just been removed.", hint="GET /v1/domains lists the others.") from None
                if not self.known(digest):  # removed meanwhile
                    path.unlink(missing_ok=True)
        return found

    def _write_csv(self, digest: str, path: Path) -> None:
        name = domain_file_name(digest)
        place = self._files.place(name)
        if place is not None and place.stat().st_size > LARGE:
            write_csv_elsewhere(place, path)
            return
        with self._files.open(name) as file:
            content = file.read()
        if len(content) <= LARGE:
            write_safely(path, domain_to_csv(read_domain(content, name=digest)[1]))
            return
        with on_disk(content) as source:
            write_csv_elsewhere(source, path)

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
                self._files.delete(domain_file_name(row["digest"]))
        with suppress(UnknownDomain):  # another call of this was faster
            self.registry.remove(id, version)
        if not self.known(row["digest"]):
            (self._csv / f"{row['digest']}.csv").unlink(missing_ok=True)

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
                    self._copy(digest, id, version)
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

    def _checked(self, content: bytes | Path, id: str, version: int) -> tuple[DomainCard, bytes | memoryview]:
        """What the domain is about, and its file. A large one is read elsewhere."""
        most = self._settings.keys_per_domain
        check_size(content, most=most)
        if size_of(content) <= LARGE:
            domain = read_csv(content, id=id, version=version, most=most)
            card = card_of(domain)
            return card, write_domain(domain, card)
        with on_disk(content) as source:
            made, answer = read_elsewhere(source, "keys", id=id, version=version, most=most)
        return DomainCard.model_validate_json(answer["card"]), memoryview(made)

    def _enter(self, caller: Caller, card: DomainCard, content: bytes | memoryview) -> RowMapping | None:
        """The row of somebody who was faster, if there is one. Who may not register leaves no file behind."""
        with self._database.read() as connection:
            self._check_quota(connection, caller, card, len(content))
        self._files.put(domain_file_name(card.digest), content)
        try:
            return self._insert(caller, card, len(content))
        except BaseException:
            with suppress(Exception):  # what stays behind is set aside at the next start
                if not self.known(card.digest):
                    self._files.delete(domain_file_name(card.digest))
            raise

    def _check_quota(self, connection: Connection, caller: Caller, domain: DomainCard, size: int) -> None:
        used = select(func.coalesce(func.sum(domains.c.size), 0)).where(domains.c.account == caller.name)
        if int(connection.execute(used).scalar_one()) + domain.size > self._settings.keys_per_provider:
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

        name, most = domain_file_name(domain.digest), self._settings.bytes_per_provider
        self._quota.check(connection, caller.name, name, size, most=most)

    def _take_back(self, connection: Connection, caller: Caller, domain: DomainCard) -> None:
        """A name that was removed means what it meant: whoever had it may register the same keys again, and nobody else."""
        named = (removed_domains.c.id == domain.id) & (removed_domains.c.version == domain.version)
        before = connection.execute(select(removed_domains).where(named)).mappings().first()
        if before is not None and (before["digest"], before["account"]) != (domain.digest, caller.name):
            raise Conflict(
                f"the key domain {domain.id!r} version {domain.version} was another list of keys, or another provider's.",
                hint="It was removed, and its name is not given anew: register yours as the next version.",
            )
        connection.execute(delete(removed_domains).where(named))

    def _insert(self, caller: Caller, domain: DomainCard, size: int) -> RowMapping | None:
        """The row of somebody who was faster, if there is one."""
        levels = [parent.name for parent in domain.parents]
        row = {
            "id": domain.id,
            "version": domain.version,
            "size": domain.size,
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
            self._check_quota(connection, caller, domain, size)
            self._take_back(connection, caller, domain)
            connection.execute(insert(domains).values(row))
            self._trail.note(
                connection, caller.name, "register domain", f"{domain.id}/{domain.version}", {"size": domain.size}
            )
        return None

    def _copy(self, digest: str, id: str, version: int) -> None:
        """The file of a domain into the registry. Two ids may stand for one list: then it is written anew."""
        with self._files.open(domain_file_name(digest)) as file:
            content = file.read()
        card = read_card(content, name=digest)
        if (card.id, card.version) == (id, version):
            self.registry.enter(card, lambda: content)
            return
        _, domain = read_domain(content, name=digest)
        self.registry.register(KeyDomain(id, version, domain.values, domain.parents))


def _shown(row: RowMapping) -> Domain:
    facts = {name: row[name] for name in ("id", "version", "size", "digest", "keys_digest", "registered")}
    return Domain(levels=json.loads(row["levels"]), provider=row["account"], **facts)
