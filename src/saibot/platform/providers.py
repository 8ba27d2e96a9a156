"""Who providers are: whom an admin has verified, which key signs for an account, and what others are told of that.

A key becomes an account's by signing a challenge that this platform made for it: nobody binds somebody else's key by sending
a sketch that its owner has signed. Another key takes its place by the old key's own signature, which everybody can check, or
after an admin has taken the old one back.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.engine import RowMapping

from saibot.platform.accounts import Caller, has_token
from saibot.platform.audit_log import Trail
from saibot.platform.catalog import Catalog
from saibot.platform.clock import now
from saibot.platform.copies import Copies
from saibot.platform.errors import Conflict, NotAllowed, NotFound, Unusable
from saibot.platform.pagination import Page, Place
from saibot.platform.storage.database import Database
from saibot.platform.storage.tables import provider_keys, providers
from saibot.sketch import PublicKey
from saibot.sketch.signing import account_proof, successor_proof
from saibot.wire import AccountKey, EarlierKey, KeyChallenge, NewKey, ProviderStanding

CHALLENGE_SECONDS = 600.0
PROVIDERS_TOGETHER = 500


class Providers:
    """Standings for everybody; keys for their owners; verification for admins."""

    def __init__(self, database: Database, trail: Trail, catalog: Catalog, copies: Copies) -> None:
        self._database, self._trail, self._catalog, self._copies = database, trail, catalog, copies

    # -------------------------------------------------------------------------------------------- standings

    def list(self, caller: Caller, place: Place, limit: int) -> Page:
        """Those who have published something that the caller may know of, by name."""
        counts = self._catalog.providers(caller, None if place is None else place[0], limit + 1)
        names = [name for name, _ in counts[:limit]]
        found = self.standings(caller, names, dict(counts))
        return Page([found[name] for name in names], [names[-1]] if len(counts) > limit else None)

    def standing(self, caller: Caller, name: str) -> ProviderStanding:
        found = self.standings(caller, [name])[name]
        own = caller.has("admin") or (caller.signed_in and caller.name == name)
        if not found.datasets and not own:
            raise NotFound(
                "nobody with this name has published anything here.", hint="GET /v1/providers lists those who have."
            )
        return found

    def standings(
        self, caller: Caller, names: Iterable[str], counts: dict[str, int] | None = None
    ) -> dict[str, ProviderStanding]:
        """Of each of these names, whether or not there is anything to say of it."""
        wanted = list(dict.fromkeys(names))
        counts = self._catalog.published_by(caller, wanted) if counts is None else counts
        answer: dict[str, ProviderStanding] = {}
        with self._database.read() as connection:
            for start in range(0, len(wanted), PROVIDERS_TOGETHER):
                some = wanted[start : start + PROVIDERS_TOGETHER]
                query = select(providers).where(providers.c.account.in_(some))
                rows = {row["account"]: row for row in connection.execute(query).mappings()}
                keys: dict[str, list[RowMapping]] = {}
                by_age = select(provider_keys).where(provider_keys.c.account.in_(some)).order_by(provider_keys.c.since)
                for row in connection.execute(by_age).mappings():
                    keys.setdefault(row["account"], []).append(row)
                for name in some:
                    answer[name] = _standing(name, rows.get(name), keys.get(name, []), counts.get(name, 0))
        return answer

    def verified(self) -> set[str]:
        """The accounts that an admin has verified."""
        with self._database.read() as connection:
            return {
                row.account
                for row in connection.execute(select(providers.c.account).where(providers.c.verified.is_not(None)))
            }

    # -------------------------------------------------------------------------------------------- verification

    def verify(self, caller: Caller, name: str) -> ProviderStanding:
        """Say that the account is who its name says. Nobody says that of themselves."""
        caller.need("admin")
        if caller.name == name:
            raise NotAllowed("nobody verifies their own account.", hint="Ask another admin.")
        with self._database.write() as connection:
            self._database.alone(connection, f"account {name}")
            row = self._row(connection, name)
            if (row is None or row["since"] is None) and not has_token(connection, name):
                raise NotFound(f"there is no account {name}.", hint="`saibot token list` shows who has one.")
            if row is None or row["verified"] is None:
                self._enter(connection, name, verified=now(), verified_by=caller.name)
                self._trail.note(connection, caller.name, "verify", name, {})
                self._copies.settle_of(connection, name)
        return self.standings(caller, [name])[name]

    def take_back(self, caller: Caller, name: str) -> ProviderStanding:
        """The account counts as any other from now on."""
        caller.need("admin")
        with self._database.write() as connection:
            self._database.alone(connection, f"account {name}")
            row = self._row(connection, name)
            if row is not None and row["verified"] is not None:
                self._enter(connection, name, verified=None, verified_by=None)
                self._trail.note(connection, caller.name, "take verification back", name, {"since": row["verified"]})
                self._copies.settle_of(connection, name)
        return self.standings(caller, [name])[name]

    # -------------------------------------------------------------------------------------------- keys

    def key_of(self, caller: Caller) -> AccountKey:
        """The key that the caller's sketches have to be signed with, if there is one."""
        caller.need("provider")
        with self._database.read() as connection:
            return _told(caller.name, current_key(connection, caller.name))

    def challenge(self, caller: Caller) -> KeyChallenge:
        """Something that nobody has signed yet, for the caller's new key to sign. The last one that was given out counts."""
        caller.need("provider")
        made = secrets.token_hex(32)
        with self._database.write() as connection:
            self._enter(connection, caller.name, challenge=made, challenged=self._database.moment(connection))
        return KeyChallenge(account=caller.name, challenge=made)

    def bind(self, caller: Caller, new: NewKey) -> AccountKey:
        """From now on the caller's sketches are signed with this key. A key that is there already has to agree."""
        caller.need("provider")
        key = PublicKey.read(new.key)
        with self._database.write() as connection:
            self._database.alone(connection, f"account {caller.name}")
            self._check_challenge(connection, caller.name, key, new.proof)
            known = {row["key"]: row for row in self._keys(connection, caller.name)}
            old = current_key(connection, caller.name)
            if old == key:
                return _told(caller.name, key)
            if key.text in known:
                raise Conflict(
                    f"the key {key.fingerprint} was this account's before and is not any more.",
                    hint="Make a new one: `saibot key rotate`.",
                )
            if old is not None:
                if new.by_old_key is None or not old.verifies(new.by_old_key, successor_proof(old, key)):
                    raise Conflict(
                        f"this account signs with the key {old.fingerprint}, which has not agreed to another one.",
                        hint="Publish from the machine that has it; where it is lost, an admin takes it back: "
                        "`saibot providers take-key NAME`.",
                        code="other_key",
                    )
                this = (provider_keys.c.account == caller.name) & (provider_keys.c.key == old.text)
                ended = {"until": now(), "next": key.text, "proof": new.by_old_key}
                connection.execute(update(provider_keys).where(this).values(ended))
            connection.execute(insert(provider_keys).values(account=caller.name, key=key.text, since=now()))
            facts = {"key": key.fingerprint} | ({} if old is None else {"instead_of": old.fingerprint})
            self._trail.note(connection, caller.name, "bind key", caller.name, facts)
        return _told(caller.name, key)

    def take_key(self, caller: Caller, name: str) -> ProviderStanding:
        """An account's key is lost, or somebody else has it: from now on it signs nothing here, and another may be bound."""
        caller.need("admin")
        with self._database.write() as connection:
            self._database.alone(connection, f"account {name}")
            old = current_key(connection, name)
            if old is None:
                raise NotFound(f"the account {name} has no key.", hint="`saibot providers list` shows who has one.")
            this = (provider_keys.c.account == name) & (provider_keys.c.key == old.text)
            connection.execute(update(provider_keys).where(this).values(until=now()))
            self._trail.note(connection, caller.name, "take key back", name, {"key": old.fingerprint})
        return self.standings(caller, [name])[name]

    # -------------------------------------------------------------------------------------------- for publishing

    def check_signer(self, connection: Connection, account: str, signer: PublicKey | None) -> None:
        """Raise unless this account's sketches are signed like this: by its key, or not at all while it has none."""
        key = current_key(connection, account)
        if key == signer:
            return
        if signer is None:
            raise Conflict(
                "this account's sketches are signed, and this one is not.",
                hint="`saibot publish` signs it; where the key is lost, ask the platform's admin.",
                code="not_signed",
            )
        if key is None:
            raise Conflict(
                f"the sketch is signed with the key {signer.fingerprint}, which is not this account's.",
                hint="`saibot publish` binds your own key at first use; over HTTP, PUT /v1/me/key does.",
                code="other_key",
            )
        raise Conflict(
            f"the sketch is signed with the key {signer.fingerprint}, and this account signs with {key.fingerprint}.",
            hint="Publish from the machine that has the key; where it is lost, ask the platform's admin.",
            code="other_key",
        )

    def note_publication(self, connection: Connection, account: str, published: str) -> None:
        """Remember when an account first published something."""
        row = self._row(connection, account)
        if row is None or row["since"] is None:
            self._enter(connection, account, since=published)

    # -------------------------------------------------------------------------------------------- inside

    def _check_challenge(self, connection: Connection, account: str, key: PublicKey, proof: str) -> None:
        row = self._row(connection, account)
        challenge = None if row is None else row["challenge"]
        if row is None or challenge is None or self._database.moment(connection) > row["challenged"] + CHALLENGE_SECONDS:
            raise Unusable("there is no challenge for this account's key.", hint="POST /v1/me/key/challenge makes one.")
        if not key.verifies(proof, account_proof(challenge, account)):
            raise Unusable("the proof is not the key's signature of this account's challenge.", hint="Sign the latest one.")
        self._enter(connection, account, challenge=None, challenged=None)

    def _keys(self, connection: Connection, account: str) -> Collection[RowMapping]:
        return connection.execute(select(provider_keys).where(provider_keys.c.account == account)).mappings().all()

    def _row(self, connection: Connection, account: str) -> RowMapping | None:
        return connection.execute(select(providers).where(providers.c.account == account)).mappings().first()

    def _enter(self, connection: Connection, account: str, **values: object) -> None:
        if connection.execute(update(providers).where(providers.c.account == account).values(values)).rowcount == 0:
            connection.execute(insert(providers).values(account=account, **values))


def current_key(connection: Connection, account: str) -> PublicKey | None:
    """The key that an account's sketches are signed with."""
    query = select(provider_keys.c.key).where(provider_keys.c.account == account, provider_keys.c.until.is_(None))
    found = connection.execute(query).scalar()
    return None if found is None else PublicKey.read(found)


def _told(account: str, key: PublicKey | None) -> AccountKey:
    return AccountKey(
        account=account, key=None if key is None else key.text, fingerprint=None if key is None else key.fingerprint
    )


def _standing(name: str, row: RowMapping | None, keys: Collection[RowMapping], datasets: int) -> ProviderStanding:
    now_in_use = next((PublicKey.read(one["key"]) for one in keys if one["until"] is None), None)
    earlier = [one for one in keys if one["until"] is not None]
    return ProviderStanding(
        name=name,
        verified=row is not None and row["verified"] is not None,
        verified_since=None if row is None else row["verified"],
        since=None if row is None else row["since"],
        datasets=datasets,
        key=None if now_in_use is None else now_in_use.text,
        fingerprint=None if now_in_use is None else now_in_use.fingerprint,
        earlier_keys=tuple(
            EarlierKey(
                key=one["key"],
                fingerprint=PublicKey.read(one["key"]).fingerprint,
                until=one["until"],
                proof=one["proof"],
                next=one["next"],
            )
            for one in earlier
        ),
    )
