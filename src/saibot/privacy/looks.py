"""Which cards were looked at with rows in view, as keyed hashes of their fields. Kept beside the ledger, append-only.

Whoever has seen what rows say about one card and then releases another one has chosen by the rows, and not paid for that.
The ledger cannot tell the fields' names or values; it can tell whether a card is the one that was looked at.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from saibot.privacy.ledger import Ledger
from saibot.privacy.ledger_file import LedgerFile

_TABLE = """
CREATE TABLE IF NOT EXISTS look (
    id INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL, kind TEXT NOT NULL, hashes TEXT NOT NULL,
    created TEXT NOT NULL)
"""
_APPEND_ONLY = [
    f"CREATE TRIGGER IF NOT EXISTS look_no_{verb} BEFORE {verb.upper()} ON look "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    for verb in ("update", "delete")
]


@dataclass(frozen=True)
class LookedAt:
    """One look: the hash of every field's value under the hash of its name, and one of all that is said about keys."""

    fields: dict[str, str]
    keys: str


class Looks:
    """The looks of one ledger. `hashed` gives a card's fields in the form that is kept."""

    def __init__(self, ledger: Ledger) -> None:
        self._file = LedgerFile(ledger.home / "ledger.sqlite")
        self._secret = ledger.secret("cards looked at").encode()

    def hashed(self, fields: Mapping[str, str], keys: str) -> LookedAt:
        return LookedAt({self.hash(name): self.hash(value) for name, value in fields.items()}, self.hash(keys))

    def hash(self, text: str) -> str:
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()[:32]

    def note(self, account: str, look: LookedAt) -> None:
        """Before the provider sees anything. A look that was noted before is not noted again."""
        if look not in self.of(account):
            self._add(account, "look", json.dumps({"fields": look.fields, "keys": look.keys}))

    def note_paid(self, account: str, keys: str) -> None:
        """How well these keys cover the rows was bought: whoever changes them afterwards has paid for knowing why."""
        if keys not in self.paid(account):
            self._add(account, "paid", keys)

    def of(self, account: str) -> list[LookedAt]:
        found = [json.loads(hashes) for hashes in self._hashes(account, "look")]
        return [LookedAt(one["fields"], one["keys"]) for one in found]

    def paid(self, account: str) -> list[str]:
        return self._hashes(account, "paid")

    def _hashes(self, account: str, kind: str) -> list[str]:
        with self._file.reading() as db:
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'look'").fetchone() is None:
                return []
            return [row[0] for row in db.execute("SELECT hashes FROM look WHERE account = ? AND kind = ?", (account, kind))]

    def _add(self, account: str, kind: str, hashes: str) -> None:
        with self._file.writing() as db:
            for statement in (_TABLE, *_APPEND_ONLY):
                db.execute(statement)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            values = (account, kind, hashes, now)
            db.execute("INSERT INTO look (account, kind, hashes, created) VALUES (?, ?, ?, ?)", values)
