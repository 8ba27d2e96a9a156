"""Enquiries: a requester asks a provider for more than is published; the provider grants a dataset, or refuses.

Both sides see all of an enquiry, nobody else does; the trail says who asked whom about which dataset, and how it ended.
"""

from __future__ import annotations

import secrets
from typing import Literal

from sqlalchemy import ColumnElement, Connection, delete, false, func, insert, or_, select, update

from saibot.platform.accounts import Caller
from saibot.platform.audit_log import Trail
from saibot.platform.catalog import Catalog
from saibot.platform.clock import now
from saibot.platform.control_characters import has_control_characters
from saibot.platform.errors import Conflict, NotAllowed, NotFound, NotSignedIn, OverQuota, Unusable
from saibot.platform.grants import Grants
from saibot.platform.pagination import Page, Place
from saibot.platform.settings import Settings
from saibot.platform.storage.database import Database
from saibot.platform.storage.tables import enquiries
from saibot.privacy import Budget
from saibot.wire import Enquire, Enquiry, EnquiryGrant, EnquiryRefusal
from saibot.wire.dataset import Cost

Side = Literal["asked", "received"]


class EnquiryBook:
    def __init__(self, database: Database, trail: Trail, catalog: Catalog, grants: Grants, settings: Settings) -> None:
        self._database, self._trail, self._catalog = database, trail, catalog
        self._grants, self._settings = grants, settings

    def ask(self, caller: Caller, wish: Enquire) -> Enquiry:
        """Send an enquiry to the provider of a dataset that the caller may know of."""
        caller.need("requester")
        row = self._catalog.row(caller, wish.dataset)
        if row["provider"] == caller.name:
            raise Unusable("this dataset is your own.", hint="Enquiries go to other providers.")
        _check_texts(*wish.columns, *wish.keys, in_lines=wish.why)
        asked = None if wish.budget is None else Budget(wish.budget.epsilon, wish.budget.delta).to_json()
        enquiry = Enquiry(
            id=f"e{secrets.token_hex(8)}",
            requester=caller.name,
            provider=row["provider"],
            dataset=row["id"],
            name=row["name"],
            columns=tuple(dict.fromkeys(wish.columns)),
            keys=tuple(dict.fromkeys(wish.keys)),
            budget=None if asked is None else Cost(**asked),
            why=wish.why,
            status="open",
            answer="",
            granted=None,
            asked=now(),
            answered=None,
        )
        values = {"id": enquiry.id, "account": caller.name, "provider": enquiry.provider, "status": enquiry.status}
        with self._database.write() as connection:
            self._database.alone(connection, f"enquiries of {caller.name}")  # counting and entering are one step
            self._check_quota(connection, caller)
            connection.execute(insert(enquiries).values(**values, document=enquiry.model_dump_json()))
            self._note(connection, caller, "enquire", enquiry)
        return enquiry

    def list(
        self, caller: Caller, *, side: Side | None = None, open_only: bool = False, place: Place = None, limit: int = 50
    ) -> Page:
        """Those that the caller has asked or received, the latest first."""
        if not caller.signed_in:
            raise NotSignedIn("this needs a token.", hint="Send `Authorization: Bearer TOKEN`; an admin gives out tokens.")
        query = select(enquiries.c.number, enquiries.c.document).where(_of(caller, side))
        query = query.where(enquiries.c.status == "open") if open_only else query
        query = query if place is None else query.where(enquiries.c.number < place[0])
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(enquiries.c.number.desc()).limit(limit + 1)).all()
        found = [Enquiry.model_validate_json(row.document) for row in rows[:limit]]
        return Page(found, [rows[limit - 1].number] if len(rows) > limit else None)

    def waiting(self, caller: Caller) -> int:
        """How many enquiries wait for this provider's answer."""
        to_me = _of(caller, "received") & (enquiries.c.status == "open")
        with self._database.read() as connection:
            return int(connection.execute(select(func.count()).select_from(enquiries).where(to_me)).scalar_one())

    def show(self, caller: Caller, id: str) -> Enquiry:
        if not caller.signed_in:
            caller.need("requester")
        with self._database.read() as connection:
            return self._found(connection, caller, id)

    def grant(self, caller: Caller, id: str, answer: EnquiryGrant) -> Enquiry:
        """Say yes with one of the caller's own datasets: the requester may use it from now on."""
        _check_texts(in_lines=answer.words)
        enquiry = self._answerable(caller, id)
        row = self._grants.own(caller, answer.dataset)
        with self._database.write() as connection:
            ended = enquiry.but(status="granted", answer=answer.words, granted=row["id"], answered=now())
            self._end(connection, caller, ended)
            self._grants.enter(connection, caller, row, enquiry.requester)
        return ended

    def refuse(self, caller: Caller, id: str, answer: EnquiryRefusal) -> Enquiry:
        _check_texts(in_lines=answer.reason)
        enquiry = self._answerable(caller, id)
        with self._database.write() as connection:
            ended = enquiry.but(status="refused", answer=answer.reason, answered=now())
            self._end(connection, caller, ended)
        return ended

    def remove(self, caller: Caller, id: str) -> None:
        """Take an enquiry back, or forget an answered one. What was granted stays granted."""
        enquiry = self.show(caller, id)
        if enquiry.requester != caller.name:
            raise NotAllowed("only who sent an enquiry takes it back.", hint="Refuse it, with a reason.")
        with self._database.write() as connection:
            connection.execute(delete(enquiries).where(enquiries.c.id == id))
            self._note(connection, caller, "take enquiry back", enquiry)

    # -------------------------------------------------------------------------------------------- inside

    def _found(self, connection: Connection, caller: Caller, id: str) -> Enquiry:
        query = select(enquiries.c.document).where(enquiries.c.id == id, _of(caller, None))
        text = connection.execute(query).scalar()
        if text is None:
            raise NotFound("there is no such enquiry of yours.", hint="List them: `saibot enquiries list`.")
        return Enquiry.model_validate_json(text)

    def _answerable(self, caller: Caller, id: str) -> Enquiry:
        caller.need("provider")
        enquiry = self.show(caller, id)
        if enquiry.provider != caller.name:
            raise NotAllowed("only the provider answers an enquiry.", hint="Wait for the answer, or take the enquiry back.")
        return enquiry

    def _end(self, connection: Connection, caller: Caller, ended: Enquiry) -> None:
        """Write the answer down if it is the first; two who answer at once must not both be told that they did."""
        waiting = (enquiries.c.id == ended.id) & (enquiries.c.status == "open")
        values = {"status": ended.status, "document": ended.model_dump_json()}
        if not connection.execute(update(enquiries).where(waiting).values(values)).rowcount:
            raise Conflict("this enquiry is answered, or was taken back.", hint="Grants can be taken back by themselves.")
        self._note(connection, caller, "grant enquiry" if ended.granted else "refuse enquiry", ended)

    def _note(self, connection: Connection, caller: Caller, action: str, enquiry: Enquiry) -> None:
        facts = {"requester": enquiry.requester, "provider": enquiry.provider, "dataset": enquiry.dataset}
        facts |= {"granted": enquiry.granted} if enquiry.granted else {}
        self._trail.note(connection, caller.name, action, enquiry.id, facts)

    def _check_quota(self, connection: Connection, caller: Caller) -> None:
        mine = _of(caller, "asked") & (enquiries.c.status == "open")
        count = connection.execute(select(func.count()).select_from(enquiries).where(mine)).scalar_one()
        if count >= self._settings.enquiries_per_requester:
            raise OverQuota(
                f"{caller.name} has {count} enquiries without an answer, the most allowed.",
                hint="Wait for an answer, or take one back.",
            )


def _of(caller: Caller, side: Side | None) -> ColumnElement[bool]:
    """Those that the caller is a side of."""
    if not caller.signed_in:
        return false()
    sides = {"asked": enquiries.c.account == caller.name, "received": enquiries.c.provider == caller.name}
    return or_(*sides.values()) if side is None else sides[side]


def _check_texts(*texts: str, in_lines: str) -> None:
    if any(map(has_control_characters, (*texts, in_lines.replace("\r\n", "").replace("\n", "")))):
        raise Unusable("the text holds control characters.", hint="Send plain text.")
