"""What a provider should hear about the rows before they are charged. For the provider's own screen: nothing here leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ibis.expr.types as ir

from saibot.privacy.account import Charge
from saibot.privacy.ledger import Ledger
from saibot.privacy.samples import Sample
from saibot.privatize.aggregate import ExactStatistics, kept_rows
from saibot.privatize.cells import number_in
from saibot.privatize.known_rows import resembling
from saibot.privatize.request import Prepared


@dataclass(frozen=True)
class Doubt:
    """A sentence about the rows.

    `asked`: somebody should say whether to go on, if anybody is there; if not, the release goes on, for what leaves may not
    depend on rows. `wasteful`: all that is paid for would be noise, so nothing is charged unless the provider says so.
    """

    text: str
    asked: bool = False
    wasteful: bool = False


def go_on(doubt: Doubt) -> bool:
    """The answer where nobody is there to be asked."""
    return not doubt.wasteful


def doubts(
    ready: Prepared,
    charge: Charge,
    ledger: Ledger,
    exact: ExactStatistics | None,
    samples: Sequence[Sample],
    as_written: bytes | None,
) -> list[Doubt]:
    found = [*_known_individuals(charge, ledger, samples), *_part(ready, charge, as_written), *_unreadable(ready)]
    if exact is not None and exact.levels and exact.rows and exact.levels[0][-1, 0] == exact.rows:
        assert ready.rows.key is not None
        text = f"no row has a key of the domain of {ready.rows.key.name!r}: all of them would go to the catch-all."
        found.append(Doubt(text, wasteful=True))
    if not charge.new_version and ledger.changed(charge.source, dataset=charge.dataset):
        found.append(Doubt("the table is another one than at the dataset's last release."))
    return found


def _known_individuals(charge: Charge, ledger: Ledger, samples: Sequence[Sample]) -> list[Doubt]:
    others = [known for known in ledger.known() if known.account not in (None, charge.account)]
    return [
        Doubt(
            f"{sentence}. If they are the same individuals, both caps protect them less than they say: "
            "give both cards the same account in [dataset].",
            asked=True,
        )
        for sentence in resembling(samples, others)
    ]


def _part(ready: Prepared, charge: Charge, as_written: bytes | None) -> list[Doubt]:
    if ready.request.part is None:
        return []
    if charge.share is None:
        text = (
            f"this {ready.request.part} part is not known as a part of a split that `saibot split` made by individual: "
            "it counts as a whole table, and its budget adds to that of the other part."
        )
        return [Doubt(text)]
    if as_written not in (b"", charge.source):  # of a part in memory nothing was noted
        text = (
            "this part is not as `saibot split` wrote it. If somebody in it is in the other part, too, they are protected "
            "less than the cap says: split the table again."
        )
        return [Doubt(text, asked=True)]
    return []


def _unreadable(ready: Prepared) -> list[Doubt]:
    """Numeric features of text columns in which no cell reads as a number."""
    table = kept_rows(ready.rows)
    numeric = [c for c in ready.rows.columns if c.facts.levels is None and table[c.column].type().is_string()]
    if not numeric:
        return []
    counts: dict[str, ir.Scalar] = {}
    for i, column in enumerate(numeric):
        cell = table[column.column]
        counts |= {f"n{i}": number_in(cell).notnull().sum(), f"c{i}": (cell.strip() != "").sum()}
    found = ready.rows.source.fetch(table.aggregate(**counts)).to_pylist()[0]
    answers = []
    for i, column in enumerate(numeric):
        numbers, cells = found[f"n{i}"] or 0, found[f"c{i}"] or 0
        if cells and numbers < cells:
            which = "no cell" if numbers == 0 else f"{cells - numbers:,} of {cells:,} cells"
            verb = "reads" if numbers == 0 else "do not read"
            text = f"{which} of column {column.column!r} {verb} as a number; such cells count as missing."
            answers.append(Doubt(text, wasteful=numbers == 0))
    return answers
