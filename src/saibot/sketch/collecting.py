"""Reports of individuals become one sketch. They are private already, so this is anybody's arithmetic: no row, no ledger.

A report is a sketch of one row in the local model (`saibot.privatize.local_model`). Each has noise of its own, so the noise
of the sum is the square root of their number times a report's: what `Sketch.sigma` says of a sketch in the local model.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from saibot.errors import InvalidInput, InvalidSketch
from saibot.privacy.mechanisms import same_plan
from saibot.sketch.file import read_sketch
from saibot.sketch.header import GlobalBlock, Header
from saibot.sketch.sketch import LevelTable, Sketch

_OWN = {
    "digest",
    "signature",
    "edition",
    "created",
    "global_blocks",
}  # what may differ from one individual's report to another's


def collect(reports: Iterable[Sketch | Path]) -> Sketch:
    """The sum of all reports, which have to be of one card and one request, each there once. One is read at a time."""
    total: _Total | None = None
    for number, given in enumerate(reports, start=1):
        place = given.name if isinstance(given, Path) else f"report {number}"
        report = _read(given, place)
        _check_report(report, place)
        if total is None:
            total = _Total(report)
        else:
            total.check_fits(report, place)
        total.add(report, place)
    if total is None:
        raise InvalidInput("there are no reports to collect.", hint="`saibot contribute` makes one.")
    return total.sketch()


class _Total:
    """What has been added up so far, and the first report, which all others have to be like."""

    def __init__(self, first: Sketch) -> None:
        self._first = first
        self._levels = [np.zeros_like(table.values) for table in first.levels]
        self._whole = {block.order: np.zeros(len(block.values)) for block in first.header.global_blocks}
        self._seen: dict[str, str] = {}
        self._latest = (first.header.edition, first.header.created)

    def check_fits(self, report: Sketch, place: str) -> None:
        differing = _differences(self._first, report)
        keys = zip(self._first.levels, report.levels, strict=False)
        if not differing and not all(_same_keys(one, other) for one, other in keys):
            differing = ["keys"]
        if differing:
            raise InvalidSketch(
                f"{place} is not of the same request as the first report: they differ in {differing[0]}.",
                hint="Reports add up where everybody used the same card, key, features, budget and version of saibot.",
            )

    def add(self, report: Sketch, place: str) -> None:
        if report.digest in self._seen:
            raise InvalidSketch(
                f"{place} is the same report as {self._seen[report.digest]}.", hint="Every individual is counted once."
            )
        self._seen[report.digest] = place
        for sums, table in zip(self._levels, report.levels, strict=True):
            sums += table.values
        for block in report.header.global_blocks:
            self._whole[block.order] += np.array(block.values)
        edition, created = self._latest
        self._latest = (max(edition, report.header.edition), max(created, report.header.created))

    def sketch(self) -> Sketch:
        edition, created = self._latest
        blocks = [GlobalBlock(order=order, values=tuple(map(float, sums))) for order, sums in self._whole.items()]
        header = self._first.header.model_copy(
            update={
                "invariants": {"rows": len(self._seen)},
                "global_blocks": tuple(blocks),
                "edition": edition,
                "created": created,
            }
            | ({"signature": None} if self._first.header.signature else {})
        )
        tables = zip(self._first.levels, self._levels, strict=True)
        collected = Sketch(header, tuple(LevelTable(table.keys, sums) for table, sums in tables)).sealed()
        collected.check()
        return collected


def _read(given: Sketch | Path, place: str) -> Sketch:
    if isinstance(given, Sketch):
        given.check()
        return given
    if not given.is_file():
        raise InvalidInput(f"there is no report {given}.")
    try:
        return read_sketch(given)
    except InvalidSketch as problem:
        raise InvalidSketch(f"{place} is no report: {problem.message}", hint=problem.hint) from None


def _check_report(report: Sketch, place: str) -> None:
    header = report.header
    if header.model != "local":
        raise InvalidSketch(
            f"{place} is a sketch of somebody's table, not a report of an individual.",
            hint="`saibot contribute` makes a report; sketches of tables are searched as they are.",
        )
    if header.rows != 1:
        raise InvalidSketch(
            f"{place} is a collection of {header.rows:,} reports, not a report.", hint="Collect the reports themselves."
        )
    if header.simulation:
        raise InvalidSketch(f"{place} protects nobody: its noise is simulated.", hint="Leave it out.")
    if header.preparation.kind != "public":
        raise InvalidSketch(f"{place} was not prepared by public facts alone.", hint="Leave it out.")


def _differences(one: Sketch, other: Sketch) -> list[str]:
    """Names of the header's fields that differ. The last digits of a plan's noise may: they depend on the machine."""
    compared = [name for name in Header.model_fields if name not in _OWN | {"plan"}]
    differing = [name for name in compared if getattr(one.header, name) != getattr(other.header, name)]
    alike = one.plan is not None and other.plan is not None and same_plan(one.plan, other.plan)
    return differing if alike else [*differing, "plan"]


def _same_keys(one: LevelTable, other: LevelTable) -> bool:
    return all(np.array_equal(left, right) for left, right in zip(one.keys, other.keys, strict=True))
