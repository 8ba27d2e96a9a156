"""A pair that disproves a claim, made as small as it can be while it still does: fewer rows, features and differences."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from saibot.audit.cases import Case, Row
from saibot.audit.comparing import Bench
from saibot.audit.measuring import Comparison
from saibot.audit.sources import SourceKind


@dataclass(frozen=True)
class Counterexample:
    """Two neighbouring tables, versions 0 and 1 of the case, in a form in which they disprove a claim."""

    case: Case
    source: SourceKind
    found: Comparison


def minimised(case: Case, source: SourceKind, bench: Bench, *, seconds: float = 20.0) -> Counterexample | None:
    """The smallest pair that was found in the given time; None if the first two versions disprove nothing."""
    found = bench.compare(case, source)
    if found is None or found.broken is None:
        return None
    best = Counterexample(case, source, found)
    end = time.monotonic() + seconds
    smaller = True
    while smaller and time.monotonic() < end:
        smaller = False
        for simpler in _simpler(best.case):
            if time.monotonic() > end:
                break
            again = bench.compare(simpler, source)
            if again is not None and again.broken == found.broken:
                best, smaller = Counterexample(simpler, source, again), True
                break
    return best


def _simpler(case: Case) -> Iterator[Case]:
    """Cases with less in them, those that leave out most first."""
    yield from _fewer_rows(case)
    yield from _fewer_features(case)
    yield from _fewer_differences(case)
    yield from _plainer_cells(case)


def _fewer_rows(case: Case) -> Iterator[Case]:
    count = len(case.others)
    size = count // 2
    while size >= 1:
        for start in range(0, count, size):
            kept = (*case.others[:start], *case.others[start + size :])
            if kept:
                yield replace(case, others=kept, place=min(case.place, len(kept)))
        size //= 2
    for number, version in enumerate(case.versions):
        for i in range(len(version)) if len(version) > 1 else ():
            shorter = (*version[:i], *version[i + 1 :])
            yield replace(case, versions=tuple(shorter if n == number else v for n, v in enumerate(case.versions)))


def _fewer_features(case: Case) -> Iterator[Case]:
    features = case.card["features"]
    for name in features if len(features) > 1 and "component" not in case.card else ():
        kept = {other: facts for other, facts in features.items() if other != name}

        def without(row: Row, gone: str = name) -> Row:
            return {column: cell for column, cell in row.items() if column != gone}

        yield replace(
            case,
            card=case.card | {"features": kept},
            columns=without(case.columns),
            others=tuple(map(without, case.others)),
            versions=tuple(tuple(map(without, version)) for version in case.versions),
        )


def _fewer_differences(case: Case) -> Iterator[Case]:
    """One cell of the second version as in the first."""
    one, other = case.versions
    for number, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        for name in theirs:
            if not _same(mine[name], theirs[name]):
                rows = (*other[:number], theirs | {name: mine[name]}, *other[number + 1 :])
                yield replace(case, versions=(one, rows))


def _plainer_cells(case: Case) -> Iterator[Case]:
    """Everybody else's column filled with one usual cell."""
    for name, kind in case.columns.items():
        plain = kind.usual[0]
        if name == "id" or all(_same(row[name], plain) for row in case.others):
            continue
        yield replace(case, others=tuple(row | {name: plain} for row in case.others))


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and (one == other or (one != one and other != other))


def shown(example: Counterexample) -> str:
    """Both tables side by side, the cells that differ marked, and what is disproved by them."""
    case = example.case
    names = list(case.columns)
    lines = []
    for mine, theirs in _side_by_side(case):
        marks = [mine is None or theirs is None or not _same(mine[name], theirs[name]) for name in names]
        cells = [[_spelled(row, name, mark) for name, mark in zip(names, marks, strict=True)] for row in (mine, theirs)]
        lines.append((cells, ">" if any(marks) else " "))
    widths = [
        max([len(name), *(len(cells[side][i]) for cells, _ in lines for side in (0, 1))]) for i, name in enumerate(names)
    ]

    def line(cells: list[str]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))

    told = [f"{mark} {line(cells[0])}  |  {line(cells[1])}" for cells, mark in lines]
    head = f"  {line(names)}  |  {line(names)}"
    said = f"{example.found.broken}: {example.found.said}"
    return "\n".join([f"{example.source.name}, {case.group}: {said}", head, *told, case.told()])


def _side_by_side(case: Case) -> Iterator[tuple[Row | None, Row | None]]:
    for row in case.others[: case.place]:
        yield row, row
    one, other = case.versions
    for number in range(max(len(one), len(other))):
        yield (one[number] if number < len(one) else None), (other[number] if number < len(other) else None)
    for row in case.others[case.place :]:
        yield row, row


def _spelled(row: Row | None, name: str, mark: bool) -> str:
    if row is None:
        return "-"
    return f"*{row[name]!r}*" if mark else repr(row[name])
