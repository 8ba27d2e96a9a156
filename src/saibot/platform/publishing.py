"""Publishing.

A publication counts from the moment its transaction is committed: before, its file is in the store but nothing names it;
after, it is listed at once, and packed into the shards before the next search begins. `withdrawing` is the reverse.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.engine import RowMapping

from saibot.platform.about import said_of
from saibot.platform.accounts import Caller
from saibot.platform.audit_log import Trail
from saibot.platform.catalog import Catalog
from saibot.platform.clock import at, is_day, now
from saibot.platform.copies import Copies
from saibot.platform.describe import terms_of, terms_of_said
from saibot.platform.disk_quota import DiskQuota
from saibot.platform.errors import Conflict, NotAllowed, OverQuota, Unusable
from saibot.platform.providers import Providers
from saibot.platform.settings import Settings
from saibot.platform.storage.database import Database
from saibot.platform.storage.file_names import sketch_file_name
from saibot.platform.storage.files import FileStore
from saibot.platform.storage.tables import datasets, terms, versions
from saibot.platform.validation import accepted_sketch
from saibot.sketch import PublicKey, Sketch, implausible, payload_of, signer_of
from saibot.wire import Dataset, Flag
from saibot.wire.dataset import Visibility

KEYS_PER_TABLE = 200  # that one table is published by: what is said of it is written to each of them
UNPROTECTED = 1e300  # where datasets are sorted by epsilon, open ones come after all others


class Publishing:
    """`accept` a sketch, and `confirm` its source."""

    def __init__(
        self,
        database: Database,
        files: FileStore,
        trail: Trail,
        catalog: Catalog,
        settings: Settings,
        *,
        providers: Providers,
        copies: Copies,
        quota: DiskQuota,
        published: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self._database, self._files, self._trail = database, files, trail
        self._catalog, self._settings, self._providers, self._copies = catalog, settings, providers, copies
        self._quota = quota
        self._published, self._changed = published, changed

    def accept(
        self,
        caller: Caller,
        content: bytes | Path,
        *,
        visibility: Visibility | None = None,
        expires: str | None = None,
        restored: bool = False,
    ) -> tuple[Dataset, bool]:
        """The dataset, and whether this made a new version of it. What is None stays as it is; a new dataset is public.

        What is `restored` by whoever runs the platform was accepted before, signed or not.
        """
        caller.need("provider")
        if expires is not None and (not is_day(expires) or expires <= self._today()):
            raise Unusable("`expires` is a day after today, YYYY-MM-DD.", hint="Leave it out for a dataset that stays.")
        most_keys = None if restored else self._settings.keys_per_domain
        sketch, stored = accepted_sketch(content, accept_unsafe=self._settings.accept_unsafe, most_keys=most_keys)
        if not restored:
            self._check_budget(sketch)
        key, payload = signer_of(sketch.header), payload_of(sketch)
        # A file may be named by several datasets; whoever deletes one must not meet somebody who is about to name it.
        with self._database.holding(f"account {caller.name}", f"sketch {sketch.digest}", f"payload {payload}"):
            # Before the file is written, so that refused uploads fill no disk; again in the transaction, where it counts.
            with self._database.read() as connection:
                if not restored:
                    self._providers.check_signer(connection, caller.name, key)
                self._copies.check_not_withdrawn(connection, caller.name, payload)
                present = self._present(connection, caller, sketch)
                if present is None or present["digest"] != sketch.digest:
                    self._check_quota(connection, caller, sketch, len(stored), is_new=present is None)
                taken = self._is_somebody_elses(connection, caller, sketch.digest, payload)
                signed_before = self._signer_on_file(connection, sketch.digest)
            if not taken:
                self._files.put(sketch_file_name(sketch.digest), stored)
                if signed_before is not None and signed_before != ("" if key is None else key.text):
                    self._files.replace(sketch_file_name(sketch.digest), stored)
            # The file of somebody else's sketch, byte for byte, says who signed that one, and stays.
            terms_of_it = _Publication(visibility, expires, len(stored), payload, None if taken else key)
            try:
                with self._database.write() as connection:
                    if not restored:  # again: the key may be another one by now
                        self._providers.check_signer(connection, caller.name, key)
                    found, is_new = self._enter(connection, caller, sketch, terms_of_it)
            except BaseException:
                self._drop_unnamed(sketch.digest)
                raise
        if is_new:
            self._published()
        else:
            self._changed()  # what is restricted from now on teaches no longer
        return Dataset.model_validate(self._catalog.show(caller, found.id), extra="ignore"), is_new

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
        return Dataset.model_validate(self._catalog.show(caller, id), extra="ignore")

    # -------------------------------------------------------------------------------------------- inside

    def _enter(
        self, connection: Connection, caller: Caller, sketch: Sketch, terms_of_it: _Publication
    ) -> tuple[Dataset, bool]:
        header, size, expires, key = sketch.header, terms_of_it.size, terms_of_it.expires, terms_of_it.key
        present = self._present(connection, caller, sketch)
        # Whoever publishes a new version and says nothing of who may see it has not said that everybody may.
        visibility = terms_of_it.visibility or ("public" if present is None else present["visibility"])
        if present is not None and not self._has_expired(connection, present):
            expires = expires or present["expires"]
        self._copies.forget_withdrawal(connection, terms_of_it.payload)
        if present is not None and present["digest"] == sketch.digest:
            self._sign(connection, present, key)
            return self._change(connection, present, visibility, expires), False
        if present is not None and visibility != present["visibility"] and "granted" in (visibility, present["visibility"]):
            # It would take a public dataset away from everybody, or show all earlier versions of a granted one.
            raise Conflict(
                f"{header.dataset.name!r} is {present['visibility']}: a new version of it cannot be {visibility}.",
                hint="Release it under another name, so that it is a dataset of its own.",
            )
        self._check_quota(connection, caller, sketch, size, is_new=present is None)
        version = 1 if present is None else present["version"] + 1
        said = said_of(connection, caller.name, header.dataset.name)
        document = Dataset.of(
            sketch,
            id=f"d{secrets.token_hex(8)}" if present is None else present["id"],
            provider=caller.name,
            visibility=visibility,
            version=version,
            bytes=size,
            published=now(),
            expires=expires,
            signer=key and key.fingerprint,
            flags=[Flag(code=one.code, text=one.text) for one in implausible(sketch)],
            tags=said.tags,
        )
        found_by = terms_of(header, caller.name) | terms_of_said(said)
        number = self._store(connection, present, document, sketch, found_by)
        entry = {"dataset": number, "version": version, "digest": sketch.digest, "bytes": size, "packed": False}
        entry |= {"payload": terms_of_it.payload, "signer": key and key.text}
        if document.spent is not None:
            entry |= {
                "holder": document.account,
                **{f"spent_{name}": text for name, text in document.spent.to_json().items()},
            }
        connection.execute(insert(versions).values(**entry, published=document.published, account=caller.name))
        self._providers.note_publication(connection, caller.name, document.published)
        own = select(versions.c.payload).where(versions.c.dataset == number, versions.c.payload.is_not(None))
        self._copies.settle(connection, {row.payload for row in connection.execute(own)})
        facts = {
            "name": header.dataset.name,
            "version": version,
            "digest": sketch.digest,
            "budget": document.budget.to_json() if document.budget else "open",
        }
        facts |= {"key": key.fingerprint} if key is not None else {}
        facts |= {"flags": [flag.code for flag in document.flags]} if document.flags else {}
        self._trail.note(connection, caller.name, "publish", document.id, facts)
        return document, True

    def _check_budget(self, sketch: Sketch) -> None:
        """Sketches that protect hardly anybody are not listed: whoever runs the platform says where that begins."""
        limits = {"epsilon": self._settings.max_epsilon, "delta": self._settings.max_delta}
        for name, stated in sketch.header.budget.items():
            if Decimal(stated) > limits[name]:
                raise Unusable(
                    f"the sketch has the {name} {stated}, and this platform lists none above {limits[name]}.",
                    hint="Release it anew with a smaller budget, or ask the platform's admin.",
                    code="budget_too_large",
                )

    def _is_somebody_elses(self, connection: Connection, caller: Caller, digest: str, payload: str) -> bool:
        """Whether this very sketch, byte for byte but for its signature, is another account's who had it before."""
        others = (versions.c.digest == digest) & (versions.c.account != caller.name)
        there = connection.execute(select(versions.c.digest).where(others).limit(1)).first()
        return there is not None and not self._copies.may_write(connection, caller.name, payload)

    def _signer_on_file(self, connection: Connection, digest: str) -> str | None:
        """Who signed the file that is there, empty where nobody did; None where there is no file."""
        rows = connection.execute(select(versions.c.signer).where(versions.c.digest == digest)).all()
        return next((row.signer for row in rows if row.signer), "") if rows else None

    def _sign(self, connection: Connection, row: RowMapping, key: PublicKey | None) -> None:
        """The same sketch again, signed by another key than before, or now for the first time."""
        this = (versions.c.dataset == row["number"]) & (versions.c.version == row["version"])
        if connection.execute(select(versions.c.signer).where(this)).scalar() == (key and key.text):
            return
        connection.execute(update(versions).where(this).values(signer=key and key.text, packed=False))
        document = Dataset.model_validate_json(row["document"]).but(signer=key and key.fingerprint)
        signed = update(datasets).where(datasets.c.number == row["number"]).values(document=document.model_dump_json())
        connection.execute(signed)
        self._trail.note(connection, row["provider"], "sign", row["id"], {"key": key and key.fingerprint})

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

    def _today(self) -> str:
        with self._database.read() as connection:
            return at(self._database.moment(connection))[:10]

    def _has_expired(self, connection: Connection, row: RowMapping) -> bool:
        today = at(self._database.moment(connection))[:10]
        return row["state"] == "expired" or (row["expires"] is not None and row["expires"] <= today)

    def _drop_unnamed(self, digest: str) -> None:
        """After a publication that failed: its file goes unless another dataset has the same sketch."""
        with suppress(Exception):  # what stays behind is set aside at the next start; the first error is the one to tell
            with self._database.read() as connection:
                named = connection.execute(select(versions.c.digest).where(versions.c.digest == digest)).first()
            if named is None:
                self._files.delete(sketch_file_name(digest))

    def _store(
        self, connection: Connection, present: RowMapping | None, document: Dataset, sketch: Sketch, found_by: set[str]
    ) -> int:
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
        connection.execute(insert(terms), [{"term": term, "dataset": number} for term in sorted(found_by)])
        return number

    def _change(self, connection: Connection, row: RowMapping, visibility: str, expires: str | None) -> Dataset:
        """The same sketch again: at most its visibility and expiry are new."""
        text = select(datasets.c.document).where(datasets.c.number == row["number"])
        document = Dataset.model_validate_json(connection.execute(text).scalar_one())
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

    def _check_quota(self, connection: Connection, caller: Caller, sketch: Sketch, size: int, *, is_new: bool) -> None:
        limits, name = self._settings, sketch.header.dataset.name
        count = select(func.count()).select_from(datasets).where(datasets.c.provider == caller.name)
        if is_new and connection.execute(count).scalar_one() >= limits.datasets_per_provider:
            raise OverQuota(
                f"{caller.name} has {limits.datasets_per_provider:,} datasets, the most allowed.",
                hint="Withdraw one that is no longer needed, or ask the platform's admin for more.",
            )
        same_table = count.where(datasets.c.name == name)
        if is_new and connection.execute(same_table).scalar_one() >= KEYS_PER_TABLE:
            raise OverQuota(
                f"{caller.name} has published the table {name} by {KEYS_PER_TABLE} keys, the most that there can be.",
                hint="Withdraw one that is no longer needed, or give another table another name in its card.",
            )
        self._quota.check(connection, caller.name, sketch_file_name(sketch.digest), size, most=limits.bytes_per_provider)


@dataclass(frozen=True)
class _Publication:
    """What goes with a sketch into the catalogue."""

    visibility: Visibility | None
    expires: str | None
    size: int
    payload: str
    key: PublicKey | None
