"""Publishing and withdrawing.

A publication counts from the moment its transaction is committed: before, its file is in the store but nothing names it;
after, it is listed at once, and packed into the shards before the next search begins. A withdrawal is the reverse: from its
first transaction on the dataset is invisible; then shards and files lose it; then its rows go. A crash anywhere in between
is finished at the next start.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.engine import RowMapping

from saibot.platform.accounts import Caller
from saibot.platform.audit_log import Trail
from saibot.platform.catalog import Catalog
from saibot.platform.clock import at, is_day, now
from saibot.platform.describe import terms_of
from saibot.platform.errors import Conflict, NotAllowed, OverQuota, Unusable
from saibot.platform.settings import Settings
from saibot.platform.storage.database import Database
from saibot.platform.storage.files import SET_ASIDE, FileStore
from saibot.platform.storage.tables import datasets, grants, terms, versions
from saibot.platform.validation import accepted_sketch
from saibot.sketch import SUFFIX, Sketch
from saibot.wire import Dataset
from saibot.wire.dataset import Visibility

GRACE_DAYS = 7.0  # that what has expired is kept, out of sight
UNPROTECTED = 1e300  # where datasets are sorted by epsilon, open ones come after all others


class Publishing:
    """`accept` a sketch, `confirm` its source, `withdraw` a dataset, and `tidy` after a crash or when datasets expire."""

    def __init__(
        self,
        database: Database,
        files: FileStore,
        trail: Trail,
        catalog: Catalog,
        settings: Settings,
        *,
        published: Callable[[], None],
        changed: Callable[[], None],
        remove: Callable[[set[str]], None],
    ) -> None:
        self._database, self._files, self._trail = database, files, trail
        self._catalog, self._settings = catalog, settings
        self._published, self._changed, self._remove = published, changed, remove

    def accept(
        self, caller: Caller, content: bytes | Path, *, visibility: Visibility | None = None, expires: str | None = None
    ) -> tuple[Dataset, bool]:
        """The dataset, and whether this made a new version of it. What is None stays as it is; a new dataset is public."""
        caller.need("provider")
        if expires is not None and (not is_day(expires) or expires <= self._today()):
            raise Unusable("`expires` is a day after today, YYYY-MM-DD.", hint="Leave it out for a dataset that stays.")
        sketch, stored = accepted_sketch(content, accept_unsafe=self._settings.accept_unsafe)
        # A file may be named by several datasets; whoever deletes one must not meet somebody who is about to name it.
        with self._database.holding(f"account {caller.name}", f"sketch {sketch.digest}"):
            # Before the file is written, so that refused uploads fill no disk; again in the transaction, where it counts.
            with self._database.read() as connection:
                present = self._present(connection, caller, sketch)
                if present is None or present["digest"] != sketch.digest:
                    self._check_quota(connection, caller, len(stored), is_new=present is None)
            self._files.put(file_name(sketch.digest), stored)
            try:
                with self._database.write() as connection:
                    found, is_new = self._enter(connection, caller, sketch, len(stored), visibility, expires)
            except BaseException:
                self._drop_unnamed(sketch.digest)
                raise
        if is_new:
            self._published()
        else:
            self._changed()  # what is restricted from now on teaches no longer
        return Dataset.model_validate(self._catalog.show(caller, found.id), extra="ignore"), is_new

    def withdraw(self, caller: Caller, id: str) -> None:
        """Gone from lists at once; from storage and shards when this returns."""
        row = self._catalog.row(caller, id)
        if not caller.signed_in:
            caller.need("provider")
        if row["provider"] != caller.name and not caller.has("admin"):
            raise NotAllowed(
                "only its provider or an admin can withdraw a dataset.", hint="Ask the provider, or the platform's admin."
            )
        if not caller.has("admin"):
            caller.need("provider")
        self._leave(row["number"], by=caller.name)

    def confirm(self, caller: Caller, id: str, digest: str) -> Dataset:
        """Say that the table of an open dataset is what its source says: from now on it teaches shared factors.

        `digest` is of the sketch that was looked at. A later version has to be confirmed again.
        """
        caller.need("admin")
        row = self._catalog.row(caller, id)
        if row["provider"] == caller.name:
            raise NotAllowed("nobody confirms the source of their own dataset.", hint="Ask another admin.")
        with self._database.write() as connection:
            found = connection.execute(select(datasets).where(datasets.c.number == row["number"])).mappings().one()
            document = Dataset.model_validate_json(found["document"])
            if not document.open:
                raise Unusable("this dataset is private: it has no source to confirm.", hint="It teaches as it is.")
            if found["digest"] != digest:
                raise Conflict("this dataset has another version by now.", hint="Look at it again, and confirm that one.")
            if not document.confirmed:
                document = document.but(confirmed=True)
                changed = {"teaches": True, "document": document.model_dump_json()}
                connection.execute(update(datasets).where(datasets.c.number == row["number"]).values(changed))
                self._trail.note(connection, caller.name, "confirm", id, {"digest": digest})
        self._changed()
        return document

    def tidy(self) -> int:
        """Finish withdrawals that were cut off, and take away what has expired; how many datasets went.

        A clock may be wrong: what has expired is out of all lists and searches, and withdrawn for good some days after that
        was noticed. Where its day is to come again by then, it is back.
        """
        with self._database.read() as connection:
            moment = self._database.moment(connection)  # one clock for all servers
            expired = datasets.c.expires.is_not(None) & (datasets.c.expires <= at(moment)[:10])
            query = select(datasets.c.number).where(datasets.c.state == "live", expired)
            ended = [row.number for row in connection.execute(query)]
            is_kept = datasets.c.state == "expired"
            early = [row.number for row in connection.execute(select(datasets.c.number).where(is_kept, ~expired))]
            late = is_kept & expired & (datasets.c.ended < at(moment - GRACE_DAYS * 86400))
            query = select(datasets.c.number).where((datasets.c.state == "leaving") | late)
            gone = [row.number for row in connection.execute(query)]
        for number in ended:
            self._set_state(number, "live", state="expired", ended=at(moment))
        self._unpack_expired()
        for number in early:
            self._set_state(number, "expired", state="live", ended=None)
        for number in gone:
            self._leave(number, by="expiry", unless="live")
        return len(ended) + len(gone)

    # -------------------------------------------------------------------------------------------- inside

    def _enter(
        self,
        connection: Connection,
        caller: Caller,
        sketch: Sketch,
        size: int,
        visibility: Visibility | None,
        expires: str | None,
    ) -> tuple[Dataset, bool]:
        header = sketch.header
        present = self._present(connection, caller, sketch)
        # Whoever publishes a new version and says nothing of who may see it has not said that everybody may.
        visibility = visibility or ("public" if present is None else present["visibility"])
        if present is not None and not self._has_expired(connection, present):
            expires = expires or present["expires"]
        if present is not None and present["digest"] == sketch.digest:
            return self._change(connection, present, visibility, expires), False
        if present is not None and visibility != present["visibility"] and "granted" in (visibility, present["visibility"]):
            # It would take a public dataset away from everybody, or show all earlier versions of a granted one.
            raise Conflict(
                f"{header.dataset.name!r} is {present['visibility']}: a new version of it cannot be {visibility}.",
                hint="Release it under another name, so that it is a dataset of its own.",
            )
        self._check_quota(connection, caller, size, is_new=present is None)
        version = 1 if present is None else present["version"] + 1
        document = Dataset.of(
            sketch,
            id=f"d{secrets.token_hex(8)}" if present is None else present["id"],
            provider=caller.name,
            visibility=visibility,
            version=version,
            bytes=size,
            published=now(),
            expires=expires,
        )
        number = self._store(connection, present, document, sketch)
        entry = {"dataset": number, "version": version, "digest": sketch.digest, "bytes": size, "packed": False}
        if document.spent is not None:
            entry |= {
                "holder": document.account,
                **{f"spent_{name}": text for name, text in document.spent.to_json().items()},
            }
        connection.execute(insert(versions).values(**entry, published=document.published, account=caller.name))
        facts = {
            "name": header.dataset.name,
            "version": version,
            "digest": sketch.digest,
            "budget": document.budget.to_json() if document.budget else "open",
        }
        self._trail.note(connection, caller.name, "publish", document.id, facts)
        return document, True

    def _present(self, connection: Connection, caller: Caller, sketch: Sketch) -> RowMapping | None:
        """The caller's dataset that this sketch is a version of, if there is one. One that has expired is back with it."""
        header = sketch.header
        same = (datasets.c.provider == caller.name) & (datasets.c.name == header.dataset.name)
        query = select(datasets).where(same, datasets.c.key_name == (header.key.name if header.key else ""))
        present = connection.execute(query).mappings().first()
        beside = connection.execute(select(datasets.c.document).where(same)).scalars()
        if any(json.loads(document)["open"] != header.open for document in beside):
            there, this = ("private", "open") if header.open else ("open", "private")
            raise Conflict(
                f"{header.dataset.name!r} is published as {there}, and this sketch is {this}.",
                hint="A table is one or the other: give another table another name.",
            )
        if present is not None and present["state"] == "leaving":
            raise Unusable("this dataset is being withdrawn.", hint="Try again in a moment.")
        return present

    def _set_state(self, number: int, before: str, *, state: str, ended: str | None) -> None:
        with self._database.write() as connection:
            this = (datasets.c.number == number) & (datasets.c.state == before)
            connection.execute(update(datasets).where(this).values(state=state, ended=ended))
            if state == "live":  # it is packed again before the next search
                connection.execute(update(versions).where(versions.c.dataset == number).values(packed=False))

    def _unpack_expired(self) -> None:
        """Take out of the shards what has expired; also what an earlier call of this could not take out."""
        query = select(datasets.c.number, datasets.c.digest).join(versions, versions.c.dataset == datasets.c.number)
        query = query.where(datasets.c.state == "expired", versions.c.packed).distinct()
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        if rows:
            self._remove(self._not_live({row.digest for row in rows}))
            with self._database.write() as connection:
                for row in rows:
                    connection.execute(update(versions).where(versions.c.dataset == row.number).values(packed=False))

    def _today(self) -> str:
        with self._database.read() as connection:
            return at(self._database.moment(connection))[:10]

    def _has_expired(self, connection: Connection, row: RowMapping) -> bool:
        today = at(self._database.moment(connection))[:10]
        return row["state"] == "expired" or (row["expires"] is not None and row["expires"] <= today)

    def _not_live(self, digests: set[str]) -> set[str]:
        """Those that no dataset has as its latest version which people may use."""
        query = select(datasets.c.digest).where(datasets.c.digest.in_(digests), datasets.c.state == "live")
        with self._database.read() as connection:
            return digests - {row.digest for row in connection.execute(query)}

    def _drop_unnamed(self, digest: str) -> None:
        """After a publication that failed: its file goes unless another dataset has the same sketch."""
        with suppress(Exception):  # what stays behind is set aside at the next start; the first error is the one to tell
            with self._database.read() as connection:
                named = connection.execute(select(versions.c.digest).where(versions.c.digest == digest)).first()
            if named is None:
                self._files.delete(file_name(digest))

    def _store(self, connection: Connection, present: RowMapping | None, document: Dataset, sketch: Sketch) -> int:
        header = sketch.header
        domains = [part.domain for part in header.key.parts] if header.key else []
        values = {
            "id": document.id,
            "provider": document.provider,
            "name": document.name,
            "key_name": header.key.name if header.key else "",
            "visibility": document.visibility,
            "state": "live",
            "ended": None,
            "version": document.version,
            "digest": document.digest,
            "published": document.published,
            "expires": document.expires,
            "rows": -1 if header.rows is None else header.rows,
            "epsilon": UNPROTECTED if header.open else float(header.budget["epsilon"]),
            "sort_name": document.name.casefold(),
            "domains": " ".join(dict.fromkeys(domain.replace(" ", "_") for domain in domains)),
            "document": document.model_dump_json(),
            "teaches": not header.open,
        }
        if present is None:
            number = int(connection.execute(insert(datasets).values(values).returning(datasets.c.number)).scalar_one())
        else:
            number = int(present["number"])
            connection.execute(update(datasets).where(datasets.c.number == number).values(values))
            connection.execute(delete(terms).where(terms.c.dataset == number))
        found = terms_of(header, document.provider)
        connection.execute(insert(terms), [{"term": term, "dataset": number} for term in sorted(found)])
        return number

    def _change(self, connection: Connection, row: RowMapping, visibility: str, expires: str | None) -> Dataset:
        """The same sketch again: at most its visibility and expiry are new."""
        document = Dataset.model_validate_json(row["document"])
        if (row["visibility"], row["expires"]) != (visibility, expires):
            document = document.but(visibility=visibility, expires=expires)
            changed = {"visibility": visibility, "expires": expires, "document": document.model_dump_json()}
            connection.execute(update(datasets).where(datasets.c.number == row["number"]).values(changed))
            facts = {"visibility": visibility, "expires": expires}
            self._trail.note(connection, row["provider"], "change", row["id"], facts)
        if row["state"] == "expired":
            connection.execute(update(datasets).where(datasets.c.number == row["number"]).values(state="live", ended=None))
            connection.execute(update(versions).where(versions.c.dataset == row["number"]).values(packed=False))
        return document

    def _check_quota(self, connection: Connection, caller: Caller, size: int, *, is_new: bool) -> None:
        limits = self._settings
        count = select(func.count()).select_from(datasets).where(datasets.c.provider == caller.name)
        if is_new and connection.execute(count).scalar_one() >= limits.datasets_per_provider:
            raise OverQuota(
                f"{caller.name} has {limits.datasets_per_provider:,} datasets, the most allowed.",
                hint="Withdraw one that is no longer needed, or ask the platform's admin for more.",
            )
        used = select(func.coalesce(func.sum(versions.c.bytes), 0)).where(versions.c.account == caller.name)
        if int(connection.execute(used).scalar_one()) + size > limits.bytes_per_provider:
            raise OverQuota(
                f"with this sketch {caller.name} would take more than {limits.bytes_per_provider:,} bytes.",
                hint="Withdraw datasets that are no longer needed, or ask the platform's admin for more.",
            )

    def _leave(self, number: int, *, by: str | None, unless: str | None = None) -> None:
        """Withdraw a dataset, unless it has this state by now."""
        this = select(datasets).where(datasets.c.number == number)
        with self._database.write() as connection:
            row = connection.execute(this).mappings().first()
            if row is not None:
                self._database.alone(connection, f"account {row['provider']}")  # who may be publishing it anew
                row = connection.execute(this).mappings().first()
            if row is None or row["state"] == unless:
                return
            if row["state"] != "leaving":
                connection.execute(update(datasets).where(datasets.c.number == number).values(state="leaving"))
                facts = {"name": row["name"], "provider": row["provider"]}
                self._trail.note(connection, by or row["provider"], "withdraw", row["id"], facts)
        with self._database.read() as connection:
            own = select(versions.c.digest).where(versions.c.dataset == number)
            digests = {found.digest for found in connection.execute(own)}
        with self._database.holding(*(f"sketch {digest}" for digest in digests)):
            with self._database.read() as connection:
                others = select(versions.c.digest).where(versions.c.digest.in_(digests), versions.c.dataset != number)
                orphaned = digests - {found.digest for found in connection.execute(others)}
            self._remove(orphaned)
            for digest in orphaned:
                self._files.delete(file_name(digest))
                self._files.delete(SET_ASIDE + file_name(digest))  # of a start on another database
            with self._database.write() as connection:
                connection.execute(delete(terms).where(terms.c.dataset == number))
                connection.execute(delete(grants).where(grants.c.dataset == number))
                connection.execute(delete(versions).where(versions.c.dataset == number))
                connection.execute(delete(datasets).where(datasets.c.number == number))


def file_name(digest: str) -> str:
    return f"{digest[:2]}/{digest}{SUFFIX}"
