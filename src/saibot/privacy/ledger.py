"""The ledger: what has been spent on each dataset of this machine. Local, durable, append-only.

Charge first, release second. A charge is written in its own transaction before any noise is drawn; the receipt, with the
sketch's digest, follows once the sketch is safe on disk. A crash in between leaves a charge without a receipt: spent, and
said to be. What a charge says is in `saibot.privacy.account`, how it is kept in `saibot.privacy.ledger_file`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Context, Decimal
from pathlib import Path

from saibot.errors import BudgetExceeded, LedgerConflict, SourceChanged
from saibot.privacy.account import Account, Charge, LedgerEntry
from saibot.privacy.budget import Budget, plain
from saibot.privacy.events import Event, PureEvent, Spent
from saibot.privacy.ledger_file import LedgerFile, entries_of, terms_of


class Ledger:
    """The ledger of one home folder. Safe to use from several processes at once."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._file = LedgerFile(home / "ledger.sqlite")

    def fingerprint(self, content: Iterable[bytes]) -> bytes:
        """A hash that only this ledger can compute, so that its file tells nobody anything about the rows."""
        digest = hmac.new(self._hash_key(), digestmod=hashlib.sha256)
        for chunk in content:
            digest.update(chunk)
        return digest.digest()

    def find(self, charge: Charge) -> LedgerEntry | None:
        """The finished release that this very request bought before, if there is one: it costs nothing to hand out again."""
        with self._file.reading() as db:
            rows = entries_of(
                db, "WHERE c.dataset = ? AND c.release = ? AND r.digest IS NOT NULL", (charge.dataset, charge.release)
            )
        return rows[-1] if rows else None

    def check(self, charge: Charge) -> None:
        """Whether a charge would be taken, without taking it."""
        with self._file.reading() as db:
            self._admit(db, charge)

    def charge(self, charge: Charge) -> LedgerEntry:
        """Take the charge, or refuse it and change nothing. On return it is on disk."""
        now = _now()
        with self._file.writing() as db:
            edition = self._admit(db, charge)
            if terms_of(db, charge.dataset) is None:
                cap = charge.cap or charge.asked
                db.execute(
                    "INSERT INTO dataset VALUES (?, ?, ?, ?, ?)",
                    (charge.dataset, str(charge.neighbours), plain(cap.epsilon), plain(cap.delta), now),
                )
            events = json.dumps([event.to_json() for event in charge.events])
            asked = json.dumps(charge.asked.to_json())
            cursor = db.execute(
                "INSERT INTO charge (dataset, edition, source, release, asked, events, created) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (charge.dataset, edition, charge.source, charge.release, asked, events, now),
            )
            number = cursor.lastrowid
            assert number is not None
        return LedgerEntry(number, charge.dataset, edition, charge.asked, charge.events, now, None)

    def receipt(self, entry: LedgerEntry, digest: str) -> None:
        """Note what a charge bought. A charge has one receipt."""
        with self._file.writing() as db:
            db.execute("INSERT INTO receipt VALUES (?, ?, ?)", (entry.number, digest, _now()))

    def account(self, dataset: str) -> Account | None:
        with self._file.reading() as db:
            terms = terms_of(db, dataset)
            if terms is None:
                return None
            return Account(dataset, *terms, tuple(entries_of(db, "WHERE c.dataset = ?", (dataset,))))

    def accounts(self) -> list[Account]:
        with self._file.reading() as db:
            names = [name for (name,) in db.execute("SELECT name FROM dataset ORDER BY name")]
        return [account for name in names if (account := self.account(name)) is not None]

    # ---------------------------------------------------------------------------------------------- inside

    def _admit(self, db: sqlite3.Connection, charge: Charge) -> int:
        """The edition this charge belongs to; raises if the ledger has other terms, other rows or too little left."""
        terms = terms_of(db, charge.dataset)
        cap, edition, earlier = charge.cap or charge.asked, 1, list[tuple[Event, ...]]()
        if terms is not None:
            neighbours, cap = terms
            if neighbours is not charge.neighbours:
                raise LedgerConflict(
                    f"{charge.dataset!r} is kept under {neighbours}; a release under {charge.neighbours} would not add up.",
                    hint="Use the same --neighbours, or another dataset name for other data.",
                )
            if charge.cap is not None and charge.cap != cap:
                raise LedgerConflict(
                    f"{charge.dataset!r} has the cap {cap}, fixed at its first release; the card says {charge.cap}.",
                    hint="Write the ledger's cap into the card.",
                )
            earlier = [entry.events for entry in entries_of(db, "WHERE c.dataset = ?", (charge.dataset,))]
            source, edition = db.execute(
                "SELECT source, edition FROM charge WHERE dataset = ? ORDER BY id DESC LIMIT 1", (charge.dataset,)
            ).fetchone()
            if source != charge.source:
                if not charge.new_version:
                    raise SourceChanged(charge.dataset)
                edition += 1
        self._one_name(db, charge)
        if not Spent.of_releases([*earlier, charge.events], cap).within(cap):
            raise BudgetExceeded(
                dataset=charge.dataset,
                asked=str(charge.asked),
                left=_left(earlier, charge.events, cap),
                cap=str(cap),
            )
        return int(edition)

    def _one_name(self, db: sqlite3.Connection, charge: Charge) -> None:
        """The same rows under a second name would have a second cap."""
        elsewhere = db.execute(
            "SELECT dataset FROM charge WHERE source = ? AND dataset <> ? LIMIT 1", (charge.source, charge.dataset)
        ).fetchone()
        if elsewhere is not None:
            raise LedgerConflict(
                f"the rows given as {charge.dataset!r} are those of {elsewhere[0]!r}, which has a cap of its own.",
                hint=f"Release them as {elsewhere[0]!r}; for the two parts of a request, `saibot split` makes two tables.",
            )

    def _hash_key(self) -> bytes:
        with self._file.writing() as db:
            db.execute("INSERT INTO secret SELECT 1, ? WHERE NOT EXISTS (SELECT 1 FROM secret)", (secrets.token_bytes(32),))
            (key,) = db.execute("SELECT hash_key FROM secret").fetchone()
        return bytes(key)


def _left(earlier: Sequence[Sequence[Event]], asked: Sequence[Event], cap: Budget) -> str:
    """What is left for a release like the one that was asked for, in words."""
    spent = [event for events in earlier for event in events]
    if not Spent.of([*spent, *asked]).within(cap):
        left = max(float(cap.epsilon) - Spent.of_releases(earlier, cap).epsilon_at(cap.delta), 0.0)
        return f"ε={_round_down(left)} at δ={plain(cap.delta)}"
    # Too much only because Laplace and Gaussian noise are mixed: what this mixture leaves.
    if not all(isinstance(event, PureEvent) for event in asked):
        left = max(float(cap.epsilon) - Spent.of_gaussians(spent).epsilon_at(cap.delta), 0.0)
        return f"ε={_round_down(left)} at δ={plain(cap.delta)} beside Laplace noise"
    low, high = 0.0, float(cap.epsilon)
    for _ in range(60):
        middle = (low + high) / 2
        fits = Spent.of_releases([*earlier, (PureEvent(Decimal(f"{middle:.9f}")),)], cap).within(cap)
        low, high = (middle, high) if fits else (low, middle)
    return f"ε={_round_down(low)} at δ=0 beside Gaussian noise"


def _round_down(epsilon: float) -> str:
    """Four digits, rounded down; a float may be off by 1e-12, so that what 0.9 leaves of 1 shows as 0.1."""
    four = Decimal(f"{epsilon:.12f}").quantize(Decimal("0.0001"), rounding=ROUND_FLOOR, context=Context(prec=60))
    return plain(four)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
