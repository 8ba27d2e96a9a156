"""Who is asking: tokens, their roles, and the caller that each verb is given.

A token is a random text that is shown once and kept as its sha256. Its name is the account that it acts for: datasets and
searches belong to accounts, so a token can be replaced without losing them.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from cachetools import TTLCache
from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update
from sqlalchemy.engine import RowMapping

from saibot.platform.audit_log import Trail
from saibot.platform.clock import days_ago, now
from saibot.platform.errors import Conflict, NotAllowed, NotFound, NotSignedIn, OverQuota, Unusable
from saibot.platform.pagination import Page, Place
from saibot.platform.storage.database import Database
from saibot.platform.storage.tables import grants, providers, sessions, tokens
from saibot.wire import Account, NewToken, Role, Token

ROLES: tuple[Role, ...] = get_args(Role)
NAME = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$"
PREFIX = "saibot_"
SESSION_SECONDS = 12 * 3600.0
SESSIONS_PER_ACCOUNT = 20
TOKENS_PER_ACCOUNT = 100  # valid ones, as far as accounts make them for themselves
TOKENS_A_DAY = 200  # the same, valid or not: what is revoked stays for a while, and the trail tells of all
REMEMBERED_SECONDS = 30.0  # how long a token is known without asking the database again


@dataclass(frozen=True)
class Caller:
    """The account that makes a call, with its roles. Without a token it has no name and no role."""

    name: str = ""
    roles: frozenset[str] = frozenset()
    token: str = ""

    @property
    def signed_in(self) -> bool:
        return bool(self.roles)

    @property
    def account(self) -> Account:
        return Account(name=self.name, roles=in_order(self.roles))

    def has(self, role: str) -> bool:
        return role in self.roles

    def need(self, role: str) -> None:
        """Raise unless the caller has the role."""
        if not self.signed_in:
            raise NotSignedIn("this needs a token.", hint="Send `Authorization: Bearer TOKEN`; an admin gives out tokens.")
        if role not in self.roles:
            have = " and ".join(sorted(self.roles))
            raise NotAllowed(f"this needs the role {role}; this token has {have}.", hint="Ask an admin for a token with it.")


NOBODY = Caller()


class Accounts:
    """Create, list and revoke tokens; tell whose a token is."""

    def __init__(self, database: Database, trail: Trail) -> None:
        self._database = database
        self._trail = trail
        self._known: TTLCache[str, Caller] = TTLCache(100_000, REMEMBERED_SECONDS)
        self._used: set[str] = set()
        self._revocations = 0  # a look-up that began before one may have read what is no longer so
        self._revoked_elsewhere: tuple[int, str | None] | None = None  # how many are, and when the last was
        self._lock = threading.Lock()
        self.on_last_revoked: Callable[[str], object] = lambda account: None  # its last token was revoked

    def first_start(self, data: Path) -> str | None:
        """The text of the first admin token if there was none, also written to DATA/admin-token, readable by its owner."""
        with self._database.holding("first start"), self._database.read() as connection:
            if connection.execute(select(func.count()).select_from(tokens)).scalar_one():
                return None
            path = data / "admin-token"
            path.unlink(missing_ok=True)
            path.touch(mode=0o600)
            text = _new_text()
            path.write_text(text + "\n", encoding="utf-8")  # before the row: a token that nobody knows locks everyone out
            with self._database.write() as connection:
                self._store(connection, "admin", ("admin",), text, expires=None, by="first start")
            return text

    def create(self, caller: Caller, name: str | None, roles: Iterable[str], *, expires: str | None = None) -> NewToken:
        """A new token; its text is in the answer and nowhere else.

        An admin makes one for the account of any `name`. Without a name everybody makes one for themselves, which can do and
        last no more than theirs, and ends with it.
        """
        for_oneself = name is None or (name == caller.name and not caller.has("admin"))
        if not (caller.signed_in and for_oneself):
            caller.need("admin")
        name = caller.name if name is None else name
        chosen = in_order(roles)
        if not chosen or set(roles) - set(ROLES):
            raise Unusable("a token has one or more of the roles admin, provider, requester.", hint="Name them in `roles`.")
        if not re.fullmatch(NAME, name):
            raise Unusable(
                "an account's name has 1 to 100 letters, digits, dots, dashes, underscores or @.",
                hint="Choose a name like `st-marys-hospital`.",
            )
        text = _new_text()
        with self._database.write() as connection:
            parent = None
            if for_oneself:
                self._database.alone(connection, f"tokens of {name}")
                parent, expires = caller.token, self._own_terms(connection, caller, chosen, expires)
            made = self._store(connection, name, chosen, text, expires=expires, by=caller.name, parent=parent)
        return NewToken(**dict(made), token=text)

    def _own_terms(
        self, connection: Connection, caller: Caller, chosen: tuple[Role, ...], expires: str | None
    ) -> str | None:
        """When a token may expire that somebody makes with their own; raises where it would be more than that."""
        own = connection.execute(select(tokens).where(tokens.c.id == caller.token, _valid())).mappings().first()
        if own is None:  # revoked a moment ago, and still remembered
            raise NotSignedIn("the token was revoked.", hint="Ask an admin for a new one, and `saibot login` with it.")
        have = own["roles"].split(",")
        if not set(chosen) <= set(have):
            raise NotAllowed(f"this token has {' and '.join(have)}, and gives no more than it has.", hint="Ask an admin.")
        if own["expires"] is not None and (expires is None or expires > own["expires"]):
            if expires is not None:
                ends = own["expires"][:10]
                raise NotAllowed(f"this token expires on {ends}, and gives none that lasts longer.", hint="Ask an admin.")
            expires = own["expires"]
        theirs = select(func.count()).select_from(tokens).where(tokens.c.name == caller.name, _valid())
        if connection.execute(theirs).scalar_one() >= TOKENS_PER_ACCOUNT:
            raise OverQuota(f"{caller.name} has {TOKENS_PER_ACCOUNT} tokens, the most allowed.", hint="Revoke some first.")
        lately = (tokens.c.name == caller.name) & tokens.c.parent.is_not(None) & (tokens.c.created > days_ago(1))
        if connection.execute(select(func.count()).select_from(tokens).where(lately)).scalar_one() >= TOKENS_A_DAY:
            message = f"{caller.name} has made {TOKENS_A_DAY} tokens since yesterday, the most allowed."
            raise OverQuota(message, hint="Use those that there are, or ask an admin.")
        return expires

    def list(self, caller: Caller, place: Place, limit: int, *, mine: bool = False) -> Page:
        """By age: all of them for an admin, unless only `mine` are asked for; for everybody else those of their account."""
        if not caller.signed_in:
            caller.need("admin")
        query = select(tokens).order_by(tokens.c.created, tokens.c.id).limit(limit + 1)
        if mine or not caller.has("admin"):
            query = query.where(tokens.c.name == caller.name)
        if place is not None:
            created, id = place
            query = query.where((tokens.c.created > created) | ((tokens.c.created == created) & (tokens.c.id > id)))
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        more = [rows[limit - 1]["created"], rows[limit - 1]["id"]] if len(rows) > limit else None
        return Page([_shown(row) for row in rows[:limit]], more)

    def own(self, caller: Caller) -> Sequence[Token]:
        """The tokens that act for the caller's account, the newest first."""
        if not caller.signed_in:
            return []
        query = select(tokens).where(tokens.c.name == caller.name).order_by(tokens.c.created.desc(), tokens.c.id).limit(200)
        with self._database.read() as connection:
            return [_shown(row) for row in connection.execute(query).mappings()]

    def revoke(self, caller: Caller, id: str) -> None:
        """From now on the token is refused, and those that were made with it. One's own, or as an admin anybody's; a token
        that was made with another ends itself and what was made with it, and no other of its account.

        Its account keeps what it has published, and loses with its last token what others granted to it, and that an admin
        had verified it.
        """
        with self._database.write() as connection:
            row = connection.execute(select(tokens).where(tokens.c.id == id)).mappings().first()
            if row is None or not (caller.signed_in and row["name"] == caller.name):
                caller.need("admin")
            if row is None:
                raise NotFound(f"there is no token {id}.", hint="List them: `saibot token list`, or GET /v1/tokens.")
            self._database.alone(connection, f"tokens of {row['name']}")  # none is made with it meanwhile
            if not caller.has("admin"):
                self._need_to_have_made(connection, caller, id)
            if row["revoked"] is None:
                ending = [id, *_made_with(connection, id)]
                self._keep_an_admin(connection, ending)
                for each in ending:
                    connection.execute(update(tokens).where(tokens.c.id == each).values(revoked=now()))
                    facts = {"name": row["name"]} | ({"made with": id} if each != id else {})
                    self._trail.note(connection, caller.name, "revoke token", each, facts)
            last = not has_token(connection, row["name"])
            if last:  # whoever is given this name later is not who they were given to, nor who was verified
                connection.execute(delete(grants).where(grants.c.account == row["name"]))
                this = (providers.c.account == row["name"]) & providers.c.verified.is_not(None)
                if connection.execute(update(providers).where(this).values(verified=None, verified_by=None)).rowcount:
                    self._trail.note(connection, caller.name, "take verification back", row["name"], {"token": id})
        self._forget()
        if last:
            self.on_last_revoked(str(row["name"]))

    def open_session(self, token: str) -> str:
        """The text of a new session of a browser that signed in with a token. It opens pages, and is no token itself.

        Sessions end by signing out, with their token, and after half a day.
        """
        caller = self.caller_of(token)
        text = secrets.token_urlsafe(32)
        with self._database.write() as connection:
            connection.execute(delete(sessions).where(sessions.c.opened < _session_start()))
            query = select(sessions.c.hash).where(sessions.c.account == caller.name).order_by(sessions.c.opened.desc())
            mine = [row.hash for row in connection.execute(query.offset(SESSIONS_PER_ACCOUNT - 1))]
            connection.execute(delete(sessions).where(sessions.c.hash.in_(mine)))
            row = {"hash": _hash(text), "token": _hash(token), "account": caller.name, "opened": now()}
            connection.execute(insert(sessions).values(row))
            self._trail.note(connection, caller.name, "sign in", caller.token, {})
        return text

    def close_session(self, text: str | None) -> None:
        """Sign out: from now on the session opens nothing, wherever a copy of it may be."""
        with self._database.write() as connection:
            connection.execute(delete(sessions).where(sessions.c.hash == _hash(text or "")))

    def caller_of_session(self, text: str | None) -> Caller:
        """The caller of a session. No session gives `NOBODY`; one that has ended is refused. Reads the database."""
        if text is None:
            return NOBODY
        with self._database.read() as connection:
            query = select(sessions.c.token).where(sessions.c.hash == _hash(text), sessions.c.opened > _session_start())
            key = connection.execute(query).scalar()
        if key is None:
            raise NotSignedIn("the session has ended.", hint="Sign in again.")
        return self._caller_by(key)

    def caller_of(self, text: str | None) -> Caller:
        """The caller of a token. No token gives `NOBODY`; an unknown, revoked or expired one is refused."""
        return NOBODY if text is None else self._caller_by(_hash(text))

    def _caller_by(self, key: str) -> Caller:
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._used.add(known.token)
                return known
        with self._lock:
            revocations = self._revocations
        caller = self._look_up(key)
        with self._lock:
            if revocations == self._revocations:
                self._known[key] = caller
            self._used.add(caller.token)
        return caller

    def remembered(self, text: str | None) -> Caller | None:
        """The caller of a token that was looked up a short time ago, else None. Does not read the database."""
        if text is None:
            return NOBODY
        with self._lock:
            known = self._known.get(_hash(text))
            if known is not None:
                self._used.add(known.token)
            return known

    def is_still(self, caller: Caller) -> bool:
        """Whether the token that this caller came with still opens anything. Reads the database."""
        query = select(func.count()).select_from(tokens).where(tokens.c.id == caller.token, _valid())
        with self._database.read() as connection:
            return bool(connection.execute(query).scalar_one())

    def hear_of_revocations(self) -> None:
        """Forget who was remembered where a token was revoked since the last call of this, by another server too."""
        with self._database.read() as connection:
            count, last = func.count(), func.max(tokens.c.revoked)
            query = select(count, last).select_from(tokens).where(tokens.c.revoked.is_not(None))
            known = tuple(connection.execute(query).one())  # not their number alone, for some are pruned
        if known != self._revoked_elsewhere:
            self._revoked_elsewhere = known
            self._forget()

    def prune(self, days: float) -> int:
        """Tokens go that were revoked longer ago; how many. Not those of admins: where there is no token at all, a start
        makes one. What has merely expired stays, for a clock may be wrong for a while."""
        gone = (tokens.c.revoked < days_ago(days)) & ~tokens.c.roles.contains("admin")
        with self._database.write() as connection:
            return int(connection.execute(delete(tokens).where(gone)).rowcount)

    def _forget(self) -> None:
        with self._lock:
            self._revocations += 1
            self._known.clear()

    def note_uses(self) -> None:
        """Store which tokens were used since the last call of this. It is called from time to time, not at every use."""
        with self._lock:
            used, self._used = list(self._used), set()
        if used:
            with self._database.write() as connection:
                for start in range(0, len(used), 500):
                    connection.execute(
                        update(tokens).where(tokens.c.id.in_(used[start : start + 500])).values(last_used=now())
                    )

    def _need_to_have_made(self, connection: Connection, caller: Caller, id: str) -> None:
        """A token that somebody made to hold less than all must not end the others: whoever got hold of it would."""
        parent = connection.execute(select(tokens.c.parent).where(tokens.c.id == caller.token)).scalar()
        if parent is not None and id != caller.token and id not in _made_with(connection, caller.token):
            hint = f"Revoke it with the token {parent}, with which this one was made, or ask an admin."
            raise NotAllowed("this token ends itself and those that were made with it, no others.", hint=hint)

    def _keep_an_admin(self, connection: Connection, ending: Collection[str]) -> None:
        """Whoever is no admin ends their tokens whether there is one or not."""

        def has_admin(condition: ColumnElement[bool]) -> bool:
            rows = connection.execute(select(tokens.c.roles).where(condition, _valid()))
            return any("admin" in row.roles.split(",") for row in rows)

        if not has_admin(tokens.c.id.in_(ending)):
            return
        self._database.alone(connection, "admins")  # two of them may end each other's last one at once
        if not has_admin(tokens.c.id.not_in(ending)):
            hint = "Make another one first, for an account by its name: `saibot token create NAME --role admin`."
            raise Conflict("no admin token would be left.", hint=hint)

    def _look_up(self, key: str) -> Caller:
        with self._database.read() as connection:
            row = connection.execute(select(tokens).where(tokens.c.hash == key)).mappings().first()
        if row is None or row["revoked"] is not None or (row["expires"] is not None and row["expires"] <= now()):
            why = "is unknown" if row is None else "was revoked" if row["revoked"] else "has expired"
            raise NotSignedIn(f"the token {why}.", hint="Ask an admin for a new one, and `saibot login` with it.")
        return Caller(row["name"], frozenset(row["roles"].split(",")), row["id"])

    def _store(
        self,
        connection: Connection,
        name: str,
        roles: tuple[Role, ...],
        text: str,
        *,
        expires: str | None,
        by: str,
        parent: str | None = None,
    ) -> Token:
        row = {
            "id": f"t{secrets.token_hex(8)}",
            "name": name,
            "roles": ",".join(roles),
            "hash": _hash(text),
            "created": now(),
            "expires": expires,
            "revoked": None,
            "last_used": None,
            "parent": parent,
        }
        connection.execute(insert(tokens).values(row))
        self._trail.note(connection, by, "create token", str(row["id"]), {"name": name, "roles": [*roles]})
        return _shown(row)


def _made_with(connection: Connection, id: str) -> list[str]:
    """The valid tokens that were made with this one, with those that were made with them, and so on."""
    found, left = list[str](), [id]
    while left:
        query = select(tokens.c.id).where(tokens.c.parent.in_(left), tokens.c.revoked.is_(None))
        left = [row.id for row in connection.execute(query)]
        found += left
    return found


def has_token(connection: Connection, account: str) -> bool:
    """Whether the account has a token that opens something."""
    query = select(tokens.c.id).where(tokens.c.name == account, _valid()).limit(1)
    return connection.execute(query).first() is not None


def in_order(roles: Iterable[str]) -> tuple[Role, ...]:
    """The known roles among these, in the order of `ROLES`."""
    chosen = set(roles)
    return tuple(role for role in ROLES if role in chosen)


def _valid() -> ColumnElement[bool]:
    return tokens.c.revoked.is_(None) & _unexpired()


def _unexpired() -> ColumnElement[bool]:
    return tokens.c.expires.is_(None) | (tokens.c.expires > now())


def _session_start() -> str:
    """When a session was opened that ends now."""
    return days_ago(SESSION_SECONDS / 86400)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _new_text() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def _shown(row: RowMapping | dict[str, Any]) -> Token:
    fields = ("id", "name", "created", "expires", "revoked", "last_used")
    return Token(roles=row["roles"].split(","), made_with=row["parent"], **{name: row[name] for name in fields})
