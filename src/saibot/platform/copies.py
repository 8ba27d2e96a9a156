"""Sketches with the same numbers under several names: which of them is the original, and which are copies of it.

The original is of a verified provider where there is one; otherwise it is what was published first. Copies are named as
such, listed after it, and counted by no search; whoever may not know of the original does not know of its copies. When a
private original is withdrawn its copies go with it, and nobody else publishes these numbers again.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Connection, case, delete, func, insert, select, update

from saibot.errors import InvalidSketch
from saibot.platform.clock import now
from saibot.platform.errors import Conflict
from saibot.platform.storage.database import Database
from saibot.platform.storage.files import FileStore
from saibot.platform.storage.tables import datasets, providers, versions, withdrawn
from saibot.sketch import SUFFIX, implausible, payload_of, read_sketch
from saibot.wire import Flag


@dataclass(frozen=True)
class Holder:
    """A dataset one of whose versions has a payload; `latest` where that is the version in use."""

    number: int
    provider: str
    latest: bool
    copy_of: int | None


class Copies:
    """Keeps `datasets.copy_of` right. All of it happens inside the transaction of what changed."""

    def __init__(self, database: Database, files: FileStore) -> None:
        self._database, self._files = database, files

    def holders(self, connection: Connection, payload: str) -> list[Holder]:
        """Whoever has these numbers, the original first."""
        verified = func.max(case((providers.c.verified.is_not(None), 1), else_=0))
        first = func.min(versions.c.published)
        query = (
            select(datasets.c.number, datasets.c.provider, datasets.c.copy_of, versions.c.payload, verified, first)
            .join(versions, versions.c.dataset == datasets.c.number)
            .outerjoin(providers, providers.c.account == datasets.c.provider)
            .where(versions.c.payload == payload, datasets.c.state != "leaving")
            .group_by(datasets.c.number, datasets.c.provider, datasets.c.copy_of, versions.c.payload)
            .order_by(verified.desc(), first, datasets.c.number)
        )
        latest = select(versions.c.dataset).join(
            datasets, (datasets.c.number == versions.c.dataset) & (datasets.c.version == versions.c.version)
        )
        current = {row.dataset for row in connection.execute(latest.where(versions.c.payload == payload))}
        return [Holder(row.number, row.provider, row.number in current, row.copy_of) for row in connection.execute(query)]

    def settle(self, connection: Connection, payloads: Collection[str]) -> None:
        """Say of all datasets with one of these payloads whether they are copies. What changes is packed anew."""
        for payload in sorted(set(payloads)):
            held = self.holders(connection, payload)
            for holder in held:
                copy_of = None if holder is held[0] else held[0].number
                if holder.latest and holder.copy_of != copy_of:
                    this = datasets.c.number == holder.number
                    connection.execute(update(datasets).where(this).values(copy_of=copy_of))
                    for number in (holder.number, held[0].number):
                        connection.execute(update(versions).where(versions.c.dataset == number).values(packed=False))

    def settle_of(self, connection: Connection, account: str) -> None:
        """The same for all numbers of an account that others have, too: it was verified, or is not any more."""
        other = versions.alias()
        query = select(versions.c.payload).join(other, other.c.payload == versions.c.payload)
        query = query.where(versions.c.account == account, other.c.dataset != versions.c.dataset)
        self.settle(connection, {row.payload for row in connection.execute(query.distinct())})

    def may_write(self, connection: Connection, account: str, payload: str) -> bool:
        """Whether the file of a sketch is this account's to write: nobody else had these numbers before it."""
        held = self.holders(connection, payload)
        return not held or held[0].provider == account

    # -------------------------------------------------------------------------------------------- withdrawals

    def check_not_withdrawn(self, connection: Connection, account: str, payload: str) -> None:
        """Raise where somebody else has withdrawn these numbers. A verified provider is not stopped by one who is not."""
        row = connection.execute(select(withdrawn).where(withdrawn.c.payload == payload)).mappings().first()
        if row is None or row["account"] == account:
            return
        trusted = select(providers.c.account).where(providers.c.verified.is_not(None))
        known = {
            one.account for one in connection.execute(trusted.where(providers.c.account.in_([account, row["account"]])))
        }
        if account in known and row["account"] not in known:
            return
        raise Conflict(
            "a sketch with these numbers was withdrawn by who published it here first.",
            hint="If the table is yours, tell the platform's admin, who can verify your account.",
            code="withdrawn",
        )

    def forget_withdrawal(self, connection: Connection, payload: str) -> None:
        """It is published again, by somebody who may."""
        connection.execute(delete(withdrawn).where(withdrawn.c.payload == payload))

    def leaving_with(self, connection: Connection, number: int, provider: str) -> list[int]:
        """What goes with a dataset that is withdrawn, if it is an original: the numbers of its copies. Earlier versions of
        others are versions of this one when this returns, and go with it, also where the platform is killed meanwhile."""
        own = {row.payload for row in connection.execute(select(versions.c.payload).where(versions.c.dataset == number))}
        copies: list[int] = []
        for payload in own - {None}:
            held = self.holders(connection, payload)
            if not held or held[0].number != number:
                continue  # a copy that goes takes nobody along
            others = [holder for holder in held[1:] if holder.provider != provider]
            if not any(holder.provider == provider for holder in held[1:]):
                connection.execute(delete(withdrawn).where(withdrawn.c.payload == payload))
                connection.execute(insert(withdrawn).values(payload=payload, account=provider, at=now()))
            copies += [holder.number for holder in others if holder.latest]
            for holder in others:
                if not holder.latest:
                    this = (versions.c.dataset == holder.number) & (versions.c.payload == payload)
                    for row in connection.execute(select(versions.c.version).where(this)).all():
                        last = select(func.max(versions.c.version)).where(versions.c.dataset == number)
                        taken = {"dataset": number, "version": int(connection.execute(last).scalar_one()) + 1}
                        connection.execute(update(versions).where(this, versions.c.version == row.version).values(taken))
        return list(dict.fromkeys(copies))

    # -------------------------------------------------------------------------------------------- what came before

    def fill_in(self, most: int) -> int:
        """Payloads and flags of what an earlier version of saibot stored; how many were filled in."""
        with self._database.read() as connection:
            query = select(versions.c.dataset, versions.c.version, versions.c.digest).where(versions.c.payload.is_(None))
            rows = connection.execute(query.order_by(versions.c.dataset, versions.c.version).limit(most)).all()
        for row in rows:
            with suppress(FileNotFoundError):  # withdrawn meanwhile
                payload, flags = self._looked_at(row.digest)
                with self._database.write() as connection:
                    this = (versions.c.dataset == row.dataset) & (versions.c.version == row.version)
                    connection.execute(update(versions).where(this).values(payload=payload))
                    told = (datasets.c.number == row.dataset) & (datasets.c.version == row.version)
                    document = connection.execute(select(datasets.c.document).where(told)).scalar()
                    if document is not None:
                        text = json.dumps(json.loads(document) | {"flags": flags}, ensure_ascii=False)
                        connection.execute(update(datasets).where(told).values(document=text))
                    self.settle(connection, [payload])
        return len(rows)

    def _looked_at(self, digest: str) -> tuple[str, list[dict[str, str]]]:
        """Payload and flags of a stored sketch. One that cannot be read has the numbers of nobody else."""
        with self._files.open(f"{digest[:2]}/{digest}{SUFFIX}") as file:
            content = file.read()
        try:
            sketch = read_sketch(content)
        except InvalidSketch:
            return digest, []
        return payload_of(sketch), [Flag(code=one.code, text=one.text).to_json() for one in implausible(sketch)]
