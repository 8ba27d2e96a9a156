"""The ledger: what has been spent on the individuals that this machine has rows about. Local, durable, append-only.

Charge first, release second. A charge is written in its own transaction before any noise is drawn; the receipt, with the
sketch's digest, follows once the sketch is safe on disk. A crash in between leaves a charge without a receipt: spent, and
said to be. What a charge says is in `saibot.privacy.account`, how it is kept in `saibot.privacy.ledger_file`.

What a charge is answered (whether it is taken, which edition it gets, which sketch is handed out again) depends on what was
asked, now and before, and never on the rows: otherwise the answer would tell whether they have changed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from pathlib import Path

from saibot.errors import BudgetExceeded, InvalidInput, LedgerConflict
from saibot.privacy.account import Charge, LedgerAccount, LedgerEntry, Priced, Share, Standing, epsilon_of, within
from saibot.privacy.budget import Budget, plain
from saibot.privacy.events import Event, PureEvent, Spent
from saibot.privacy.ledger_file import LedgerFile, entries_of, terms_of
from saibot.privacy.neighbours import Neighbours
from saibot.privacy.samples import Known, Sample, from_bytes, to_bytes


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

    def secret(self, purpose: str) -> str:
        """A key of its own for each purpose, the same for ever on this machine."""
        return hmac.new(self._hash_key(), f"saibot {purpose}".encode(), hashlib.sha256).hexdigest()

    # ---------------------------------------------------------------------------------------------- releases

    def find(self, dataset: str, release: bytes) -> LedgerEntry | None:
        """The finished release that this very request bought before, if there is one: it costs nothing to hand out again."""
        with self._file.reading() as db:
            rows = entries_of(db, "WHERE c.dataset = ? AND c.release = ? AND r.digest IS NOT NULL", (dataset, release))
        return rows[-1] if rows else None

    def answered_for(self, dataset: str, release: bytes) -> str | None:
        """The digest that a release which is charged once was asked about, finished or not; None before it is charged."""
        query = "SELECT once_for FROM charge WHERE dataset = ? AND release = ? AND once_for IS NOT NULL"
        with self._file.reading() as db:
            row = db.execute(query, (dataset, release)).fetchone()
        return None if row is None else str(row[0])

    def changed(self, source: bytes, *, dataset: str, entry: LedgerEntry | None = None) -> bool:
        """Whether rows are others than an entry's, or than those of the dataset's last release. For the provider alone."""
        where, value = ("id = ?", entry.number) if entry is not None else ("dataset = ?", dataset)
        with self._file.reading() as db:
            row = db.execute(f"SELECT source FROM charge WHERE {where} ORDER BY id DESC LIMIT 1", (value,)).fetchone()
        return row is not None and bytes(row[0]) != source

    def has_charged(self, source: bytes) -> bool:
        """Whether these very rows were ever charged, on whichever account."""
        with self._file.reading() as db:
            return db.execute("SELECT 1 FROM charge WHERE source = ? LIMIT 1", (source,)).fetchone() is not None

    def check(self, *charges: Charge) -> None:
        """Whether charges would be taken, one after the other, without taking any."""
        with self._file.reading() as db:
            for number, charge in enumerate(charges):
                before = [other for other in charges[:number] if other.account == charge.account]
                terms = terms_of(db, charge.account)
                first = before[0] if before else charge
                unit = first.unit if terms is None else terms[1]
                self._admit(db, charge, [(other.share, other.events_for(unit)) for other in before], first)

    def charge(self, charge: Charge) -> LedgerEntry:
        """Take the charge, or refuse it and change nothing. On return it is on disk."""
        now = _now()
        with self._file.writing() as db:
            edition = self._admit(db, charge)
            terms = terms_of(db, charge.account)
            priced = charge.events_for(charge.unit if terms is None else terms[1])
            if terms is None:
                cap = charge.cap or charge.asked
                limits = (plain(cap.epsilon), plain(cap.delta), now, plain(charge.set_aside))
                facts = (charge.account, str(charge.neighbours), charge.unit, *limits)
                db.execute("INSERT INTO account VALUES (?, ?, ?, ?, ?, ?, ?)", facts)
            events = json.dumps([event.to_json() for event in priced])
            asked = json.dumps(charge.asked.to_json())
            share = (charge.share.split, charge.share.part) if charge.share else (None, None)
            said = (asked, events, now, charge.once_for)
            cursor = db.execute(
                "INSERT INTO charge (account, dataset, edition, split, part, source, release, asked, events, created, "
                "once_for) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (charge.account, charge.dataset, edition, *share, charge.source, charge.release, *said),
            )
            number = cursor.lastrowid
            assert number is not None
        return LedgerEntry(number, charge.dataset, edition, charge.asked, priced, now, None, charge.share)

    def receipt(self, entry: LedgerEntry, digest: str) -> None:
        """Note what a charge bought. A charge has one receipt."""
        with self._file.writing() as db:
            db.execute("INSERT INTO receipt VALUES (?, ?, ?)", (entry.number, digest, _now()))

    def account(self, name: str) -> LedgerAccount | None:
        with self._file.reading() as db:
            terms = terms_of(db, name)
            if terms is None:
                return None
            return LedgerAccount(name, *terms, tuple(entries_of(db, "WHERE c.account = ?", (name,))))

    def standing(self, name: str, entry: LedgerEntry) -> Standing:
        """What the sketch that an entry buys says of its account. It follows from what was asked, then and before."""
        account = self.account(name)
        assert account is not None
        so_far = [(one.share, one.events) for one in account.entries if one.number <= entry.number]
        pure = all(isinstance(event, PureEvent) for _, events in so_far for event in events)
        epsilon = min(_round_up(epsilon_of(so_far, account.cap, account.aside)), account.cap.epsilon)
        return Standing(self.secret(f"account {name}"), Budget(epsilon, 0 if pure else account.cap.delta))

    def account_of(self, dataset: str) -> str | None:
        """The account that a dataset's releases are on."""
        with self._file.reading() as db:
            row = db.execute("SELECT account FROM charge WHERE dataset = ? ORDER BY id DESC LIMIT 1", (dataset,)).fetchone()
        return None if row is None else str(row[0])

    def accounts(self) -> list[LedgerAccount]:
        with self._file.reading() as db:
            names = [name for (name,) in db.execute("SELECT name FROM account ORDER BY name")]
        return [account for name in names if (account := self.account(name)) is not None]

    # ---------------------------------------------------------------------------------------------- splits

    def begin_split(self, *, unit: str | None, train: str, test: str) -> str:
        """Note where the parts of a table are about to be written, and by which column individuals were told apart.

        From now on these places hold no parts of an earlier split; they hold parts of this one once `split_written` says so.
        """
        id = secrets.token_hex(4)
        with self._file.writing() as db:
            db.execute("INSERT INTO split VALUES (?, ?, ?, ?, ?)", (id, unit, train, test, _now()))
        return id

    def split_written(self, id: str, *, train_source: bytes, test_source: bytes) -> None:
        with self._file.writing() as db:
            db.execute("INSERT INTO split_written VALUES (?, ?, ?)", (id, train_source, test_source))

    def share_of(self, *, place: str, part: str, split: str | None = None) -> tuple[Share, str | None, bytes] | None:
        """The recorded split that this is a part of, its unit, and how its rows were when it was written; or None.

        It is looked up by where the part was written, or by the id of the split where it was moved since: not by its rows.
        """
        if split is None and not place:  # a table in memory lies nowhere
            return None
        where, values = (f"{part} = ?", (place,)) if split is None else ("id = ?", (split,))
        with self._file.reading() as db:
            row = db.execute(
                f"SELECT id, unit, {part}_source FROM split LEFT JOIN split_written ON split = id WHERE {where} "
                "ORDER BY split.rowid DESC LIMIT 1",
                values,
            ).fetchone()
        if row is None and split is not None:
            raise InvalidInput(f"the ledger has no split {split!r}.", hint="`saibot split TABLE` makes and records one.")
        if row is None or row[2] is None:
            return None
        return Share(row[0], part), row[1], bytes(row[2])

    # ---------------------------------------------------------------------------------------------- known rows

    def remember(self, samples: Iterable[Sample], *, account: str | None = None, split: str | None = None) -> None:
        """Keep what rows look like, to recognise them. Hashes with this machine's key, which stay here."""
        now = _now()
        with self._file.writing() as db:
            for sample in samples:
                db.execute(
                    "INSERT INTO sample (account, split, version, kind, name, hashes, reach, created) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (account, split, sample.version, sample.kind, sample.name, to_bytes(sample.hashes), sample.reach, now),
                )

    def known(self) -> list[Known]:
        """What was remembered, and of what."""
        with self._file.reading() as db:
            rows = db.execute("SELECT account, split, version, kind, name, hashes, reach FROM sample ORDER BY id").fetchall()
        return [
            Known(account, split, Sample(kind, name, from_bytes(h), reach, v))
            for account, split, v, kind, name, h, reach in rows
        ]

    # ---------------------------------------------------------------------------------------------- inside

    def _admit(
        self, db: sqlite3.Connection, charge: Charge, pending: Sequence[Priced] = (), first: Charge | None = None
    ) -> int:
        """The edition this charge belongs to; raises if the account has other terms or too little left.

        `pending` would be charged before it, and `first` is the one of them that a new account gets its terms from.
        """
        terms = terms_of(db, charge.account)
        cap, unit, earlier = charge.cap or charge.asked, charge.unit, list[Priced](pending)
        aside = (first or charge).set_aside
        if terms is not None:
            neighbours, unit, cap, aside = terms
            _check_terms(charge, neighbours, unit, cap, aside)
            entries = entries_of(db, "WHERE c.account = ?", (charge.account,))
            earlier = [*((entry.share, entry.events) for entry in entries), *pending]
        elsewhere = db.execute(
            "SELECT account FROM charge WHERE dataset = ? AND account <> ? LIMIT 1", (charge.dataset, charge.account)
        ).fetchone()
        if elsewhere is not None:
            raise LedgerConflict(
                f"{charge.dataset!r} is on the account {elsewhere[0]!r}; it cannot be moved to {charge.account!r}.",
                hint=f'Write account = "{elsewhere[0]}" into the card, or give other individuals another dataset name.',
            )
        if charge.once_for is not None:
            again = "SELECT 1 FROM charge WHERE dataset = ? AND release = ? LIMIT 1"
            if db.execute(again, (charge.dataset, charge.release)).fetchone() is not None:
                raise LedgerConflict(
                    f"this was charged to {charge.account!r} before, and is answered once.",
                    hint="If it is being answered at this moment, ask again later: the same answer is then handed out.",
                )
        _check_keys(charge, earlier, aside)
        if not within([*earlier, (charge.share, charge.events_for(unit))], cap, aside):
            raise BudgetExceeded(
                dataset=charge.dataset,
                account=charge.account,
                asked=str(charge.asked),
                left=_left(earlier, charge, cap, aside),
                cap=str(cap),
            )
        (latest,) = db.execute("SELECT max(edition) FROM charge WHERE dataset = ?", (charge.dataset,)).fetchone()
        return 1 if latest is None else int(latest) + charge.new_version

    def _hash_key(self) -> bytes:
        with self._file.writing() as db:
            db.execute("INSERT INTO secret SELECT 1, ? WHERE NOT EXISTS (SELECT 1 FROM secret)", (secrets.token_bytes(32),))
            (key,) = db.execute("SELECT hash_key FROM secret").fetchone()
        return bytes(key)


def _check_keys(charge: Charge, earlier: Sequence[Priced], aside: Decimal) -> None:
    """Keys are found out of what was set aside of delta before the first answer, and out of nothing else.

    Were it taken as it comes, somebody could spend it on keys or on numbers, whichever the answers so far make worse.
    """
    wanted = Spent.of(charge.events).delta
    if wanted and wanted + sum(Spent.of(events).delta for _, events in earlier) > aside:
        raise LedgerConflict(
            f"{charge.account!r} has too little of its delta set aside for finding keys: {plain(aside)} in all, fixed at "
            f"its first release; this one takes {plain(wanted)}.",
            hint="Release all keys that are to be found at once, with --keys; or name a list of keys that is known. A card "
            'can set aside more before the first release: cap = { ..., keys = "2e-7" }.',
        )


def _check_terms(charge: Charge, neighbours: Neighbours, unit: str | None, cap: Budget, aside: Decimal) -> None:
    """A charge under other terms than the account's would not add up. Proof: accounts.proof.md."""
    if neighbours is not charge.neighbours:
        raise LedgerConflict(
            f"{charge.account!r} is kept under {neighbours}; a release under {charge.neighbours} would not add up.",
            hint="Use the same --neighbours, or another account for other individuals.",
        )
    if unit is not None and charge.unit is None:
        raise LedgerConflict(
            f"{charge.account!r} protects individuals, told apart by {unit!r}; a release by row does not bound how much of "
            "one of them it shows.",
            hint=f'Write id = "{unit}" and rows_per_individual into the card.',
        )
    if unit is not None and charge.unit != unit:
        raise LedgerConflict(
            f"{charge.account!r} protects individuals told apart by {unit!r}; this release tells them apart by "
            f"{charge.unit!r}, and nothing shows that these are the same.",
            hint=f"Use the column {unit!r}, or another account for other individuals.",
        )
    if charge.cap is not None and charge.cap != cap:
        raise LedgerConflict(
            f"{charge.account!r} has the cap {cap}, fixed at its first release; the card says {charge.cap}.",
            hint="Write the ledger's cap into the card.",
        )
    if charge.aside is not None and charge.aside != aside:
        raise LedgerConflict(
            f"{charge.account!r} has set {plain(aside)} of its delta aside for finding keys, fixed at its first release; "
            f"the card says {plain(charge.aside)}.",
            hint="Write that number into the card's cap, as keys, or leave it out.",
        )


def _left(earlier: Sequence[Priced], charge: Charge, cap: Budget, aside: Decimal) -> str:
    """What is left for a release like the one that was asked for, in words."""
    mine = [
        events
        for share, events in earlier
        if share is None or charge.share is None or share.split != charge.share.split or share.part == charge.share.part
    ]
    spent: list[Event] = [event for events in mine for event in events]
    asked = charge.events
    if not Spent.of([*spent, *asked]).within(cap, aside):
        left = max(float(cap.epsilon) - epsilon_of(earlier, cap, aside), 0.0)
        return f"ε={_round_down(left)} at δ={plain(cap.delta)}"
    # Too much only because Laplace and Gaussian noise are mixed: what this mixture leaves.
    if not all(isinstance(event, PureEvent) for event in asked):
        left = max(float(cap.epsilon) - Spent.of_gaussians(spent).epsilon_at(cap.delta, aside), 0.0)
        return f"ε={_round_down(left)} at δ={plain(cap.delta)} beside Laplace noise"
    low, high = 0.0, float(cap.epsilon)
    for _ in range(60):
        middle = (low + high) / 2
        fits = within([*earlier, (charge.share, (PureEvent(Decimal(f"{middle:.9f}")),))], cap, aside)
        low, high = (middle, high) if fits else (low, middle)
    return f"ε={_round_down(low)} at δ=0 beside Gaussian noise"


def _round_down(epsilon: float) -> str:
    """Four digits, rounded down; a float may be off by 1e-12, so that what 0.9 leaves of 1 shows as 0.1."""
    four = Decimal(f"{epsilon:.12f}").quantize(Decimal("0.0001"), rounding=ROUND_FLOOR, context=Context(prec=60))
    return plain(four)


def _round_up(epsilon: float) -> Decimal:
    """Six digits, rounded up; a float may be off by 1e-12, so that what comes to 1 shows as 1."""
    return Context(prec=6, rounding=ROUND_CEILING).create_decimal_from_float(epsilon * (1 - 1e-11))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
