"""What leaves depends on what was asked, never on whether the table has changed since: no file, edition or refusal tells."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from saibot.audit.promises.verdict import Verdict
from saibot.errors import SaibotError
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize

CARD = {
    "dataset": {"name": "replayed", "neighbours": "replace-one"},
    "budget": {"cap": {"epsilon": "100", "delta": "1e-6"}},
    "features": {"x": {"bounds": [0, 10]}},
}
ASKED = ReleaseRequest(Card.parse(CARD), Budget("1", "1e-6"), Neighbours.REPLACE_ONE)


@dataclass(frozen=True)
class SeenRelease:
    """What an outsider sees of the second of two releases."""

    outcome: str  # "released", or the name of the error
    same_file: bool = False
    edition: int = 0
    charges: int = 0


def replays_alike() -> Iterable[Verdict]:
    """Release, let the table stay or change, and release again: both must look the same."""
    yield _alike("a repeat returns the stored sketch, whatever the table is now", ASKED, _is_a_replay)
    yield _alike("a new version costs and draws anew, whatever the table is now", replace(ASKED, new_version=True), _is_new)


def _alike(promise: str, again: ReleaseRequest, right: Callable[[SeenRelease], bool]) -> Verdict:
    unchanged, changed = _history(again, change=False), _history(again, change=True)
    if unchanged != changed:
        return Verdict(promise, f"with an unchanged table: {unchanged}; with one changed row: {changed}")
    return Verdict(promise, "" if right(changed) else f"instead: {changed}")


def _is_a_replay(seen: SeenRelease) -> bool:
    return seen == SeenRelease("released", same_file=True, edition=1, charges=1)


def _is_new(seen: SeenRelease) -> bool:
    return seen == SeenRelease("released", same_file=False, edition=2, charges=2)


def _history(again: ReleaseRequest, *, change: bool) -> SeenRelease:
    with tempfile.TemporaryDirectory(prefix="saibot-audit-") as folder:
        table, ledger = Path(folder) / "table.csv", Ledger(Path(folder) / "ledger")
        table.write_text("x\n1\n2\n3\n4\n", encoding="utf-8")
        first = privatize(table, ASKED, ledger)
        if change:
            table.write_text("x\n1\n2\n3\n9\n", encoding="utf-8")
        try:
            second = privatize(table, again, ledger)
        except SaibotError as problem:
            return SeenRelease(type(problem).__name__)
        account = ledger.account("replayed")
        charges = len(account.entries) if account is not None else 0
        return SeenRelease("released", second.content == first.content, second.sketch.header.edition, charges)
