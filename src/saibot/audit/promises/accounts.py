"""One account per individuals: releases of whole tables and of parts add up, rows under another name are recognised, and
an account that protects individuals takes no release that protects rows only."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from saibot.audit.promises.verdict import Verdict
from saibot.errors import BudgetExceeded, LedgerConflict, SaibotError
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.privatize.privatize import Released
from saibot.privatize.split import split_table

CAP = "1"
PARTS = ("train", "test")
# Every row is like no other, as rows about people mostly are.
LINES = [f"{number},{number * 7919 % 1009 / 100},{number * 104729 % 997 / 100}" for number in range(60)]
HEAD = "id,x,y"


@dataclass
class _Desk:
    """A folder with a table and a ledger, and releases from it."""

    folder: Path

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folder / "ledger")

    def write(self, name: str = "table.csv", lines: list[str] | None = None) -> Path:
        path = self.folder / name
        path.write_text("\n".join([HEAD, *(lines or LINES)]) + "\n", encoding="utf-8")
        return path

    def release(
        self,
        table: Path,
        epsilon: str,
        *,
        part: Any = None,
        dataset: dict[str, Any] | None = None,
        delta: str = "1e-6",
    ) -> Released | str:
        """What was released, or the name of the error."""
        facts = {"name": "audited", "neighbours": "replace-one", "max_rows": 1000} | (dataset or {})
        document = {
            "dataset": facts,
            "budget": {"cap": {"epsilon": CAP, "delta": "1e-6"}},
            "features": {"x": {"bounds": [0, 10]}, "y": {"bounds": [0, 10]}},
        }
        card = Card.parse(document)
        card = card if part is None else card.for_request(part)
        budget = Budget(epsilon, delta)
        request = ReleaseRequest(card, budget, Neighbours.REPLACE_ONE, part=part, allocation="equal")
        try:
            return privatize(table, request, self.ledger)
        except SaibotError as problem:
            return type(problem).__name__


def _with_desk(act: Callable[[_Desk], str]) -> str:
    with tempfile.TemporaryDirectory(prefix="saibot-audit-") as folder:
        return act(_Desk(Path(folder)))


def split_accounting() -> Iterable[Verdict]:
    """An individual's total is that of all whole tables and of the largest part of each recorded split; others add up."""
    exceeded = BudgetExceeded.__name__

    def parts_after_whole(desk: _Desk) -> str:
        table = desk.write()
        parts = split_table(table, desk.ledger, test=Decimal("0.5"))
        desk.release(table, CAP)
        found = desk.release(parts.train, "0.5", part="train")
        return "" if found == exceeded else "a part was released although the whole table had spent the cap"

    def whole_after_parts(desk: _Desk) -> str:
        table = desk.write()
        parts = split_table(table, desk.ledger, test=Decimal("0.5"))
        both = [desk.release(file, CAP, part=part) for part, file in zip(PARTS, (parts.train, parts.test), strict=True)]
        if any(isinstance(found, str) for found in both):
            return "the parts of a recorded split did not both get the cap"
        found = desk.release(table, "0.1")
        return "" if found == exceeded else "the whole table was released although its parts had spent the cap"

    def unrecorded_parts(desk: _Desk) -> str:
        files = [desk.write(f"{part}.csv", LINES[start::2]) for start, part in enumerate(PARTS)]
        desk.release(files[0], CAP, part="train")
        found = desk.release(files[1], CAP, part="test")
        return "" if found == exceeded else "two parts that no split made each got the whole cap"

    broken = [said for act in (parts_after_whole, whole_after_parts, unrecorded_parts) if (said := _with_desk(act))]
    yield Verdict("whole tables and parts of one account stay within its cap together", "; ".join(broken))


def known_rows() -> Iterable[Verdict]:
    """The same rows as another file under another name: the provider is told, and nothing that leaves says so."""

    def disguised(desk: _Desk) -> str:
        desk.release(desk.write(), CAP, dataset={"name": "first-name"})
        extra = [f"{line},{number}\n" for number, line in enumerate(reversed(LINES))]
        path = desk.folder / "disguised.csv.gz"
        path.write_bytes(gzip.compress(("\n".join([f"{HEAD},more", *extra]) + "\n").encode()))
        found = desk.release(path, CAP, dataset={"name": "second-name"})
        if isinstance(found, str):
            return f"the release was refused ({found}), which tells whoever sees no sketch that the rows are known"
        if not any("first-name" in note for note in found.notes):
            return "known rows got a second cap, and nothing was said"
        return "what leaves names the other account" if b"first-name" in found.content else ""

    yield Verdict("rows that have a cap already are recognised under another name", _with_desk(disguised))


def unit_of_privacy() -> Iterable[Verdict]:
    """By row, nothing bounds how much of an individual with several rows is shown; by individual, a row is covered."""
    by_id = {"id": "id", "rows_per_individual": 2}

    def row_after_id(desk: _Desk) -> str:
        desk.release(desk.write(), "0.5", dataset=by_id)
        found = desk.release(desk.write(), "0.25")
        return "" if found == LedgerConflict.__name__ else "a release by row entered an account that protects individuals"

    def id_after_row(desk: _Desk) -> str:
        desk.release(desk.write(), "0.25")
        found = desk.release(desk.write(), "0.25", dataset=by_id)
        return f"a release by individual was refused in an account of rows ({found})" if isinstance(found, str) else ""

    broken = [said for act in (row_after_id, id_after_row) if (said := _with_desk(act))]
    yield Verdict("an account keeps to its unit of privacy", "; ".join(broken))
