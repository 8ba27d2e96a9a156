"""What a provider should hear about the rows before they are charged. For the provider's own screen: nothing here leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from saibot.privacy.account import Charge
from saibot.privacy.ledger import Ledger
from saibot.privacy.mechanisms.found_keys import FindingPlan
from saibot.privacy.samples import Sample, looks_known
from saibot.privatize.aggregate import ExactStatistics
from saibot.privatize.key_search import count_individuals
from saibot.privatize.known_rows import resembling
from saibot.privatize.release_request import Prepared


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
    found_in_rows: ExactStatistics,
    samples: Sequence[Sample],
    as_written: bytes | None,
) -> list[Doubt]:
    found = [
        *_known_individuals(charge, ledger, samples),
        *_part(ready, charge, ledger, samples, as_written),
        *no_numbers(found_in_rows),
    ]
    rows = found_in_rows.rows
    if ready.finding is not None:
        found += _no_key_to_find(ready, ready.finding)
    elif (told := _found_before(ready)) is not None:
        found.append(told)
    if ready.finding is None and rows and found_in_rows.levels and found_in_rows.levels[0][-1, 0] == rows:
        assert ready.rows.key is not None
        text = f"no row has a key of the domain of {ready.rows.key.name!r}: all of them would go to the catch-all."
        found.append(Doubt(text, wasteful=True))
    if not charge.new_version and ledger.changed(charge.source, dataset=charge.dataset):
        found.append(Doubt("the table is another one than at the dataset's last release."))
    return found


def _no_key_to_find(ready: Prepared, plan: FindingPlan) -> list[Doubt]:
    part = ready.rows.key.to_find if ready.rows.key else None
    assert part is not None
    counted = count_individuals(ready.rows, part, each=plan.keys_each)
    if (counted.individuals >= plan.least_individuals).any():
        return []
    text = f"no key of {part.name!r} has the {plan.least_individuals:,} individuals that it takes to be found."
    return [Doubt(text, wasteful=True)]


def _found_before(ready: Prepared) -> Doubt | None:
    """That keys which the card finds are known already, and are used as they are."""
    key = ready.rows.key
    facts = ready.request.card.keys[key.name].domain if key is not None else None
    if key is None or facts is None or facts.find is None:
        return None
    listed = key.parts[0].domain
    return Doubt(f"{listed.id} was found on this machine before: its {len(listed):,} keys are used, and cost nothing.")


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


def _part(
    ready: Prepared, charge: Charge, ledger: Ledger, samples: Sequence[Sample], as_written: bytes | None
) -> list[Doubt]:
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
    divided = [known for known in ledger.known() if known.account is None and known.split == charge.share.split]
    comparable = {(known.sample.kind, known.sample.name) for known in divided} & {(one.kind, one.name) for one in samples}
    if as_written == b"" and comparable and not looks_known(samples, divided):
        text = f"its rows do not look like those of the split {charge.share.split!r}: is that the right one?"
        return [Doubt(text, asked=True)]
    return []


def no_numbers(found: ExactStatistics) -> list[Doubt]:
    """Numeric features of text columns with cells that do not read as numbers."""
    answers = []
    for column, (wrong, cells) in found.no_numbers.items():
        if wrong:
            which, verb = ("no cell", "reads") if wrong == cells else (f"{wrong:,} of {cells:,} cells", "do not read")
            text = f"{which} of column {column!r} {verb} as a number; such cells count as missing."
            answers.append(Doubt(text, wasteful=wrong == cells))
    return answers
