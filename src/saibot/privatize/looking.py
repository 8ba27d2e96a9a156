"""What rows say about a card, for their provider's own screen, before anything is paid. Shown, not stored, not sent.

How much of a column would survive is computed from the very sums that would get noise, and from the noise of the plan; where
keys, bounds or components are to be bought, from those that the purchase would find without noise. So everything here is as
sensitive as the rows. The ledger notes, before anything is shown, that they were looked at with this card (`tuning.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import ibis
import numpy as np

from saibot.privacy.budget import Budget, plain
from saibot.privacy.ledger import Ledger
from saibot.privacy.mechanisms import Plan, make_plan
from saibot.privatize.aggregate import ExactStatistics, Rows, aggregate, kept_rows
from saibot.privatize.bounds import ENOUGH, QUARTILES, with_quantiles
from saibot.privatize.card import AUTO, BoughtBounds
from saibot.privatize.cells import feature_number
from saibot.privatize.checking import prepare, with_found_keys
from saibot.privatize.key_search import search
from saibot.privatize.privatize import bought_rows
from saibot.privatize.read import TableLike
from saibot.privatize.release_request import Prepared, Progress, ReleaseRequest
from saibot.privatize.schema import Column
from saibot.privatize.suggesting import repeated
from saibot.privatize.tuning import note_look
from saibot.sketch import Feature

NOISE = 0.05  # of the differences between keys: what survives less is called noise
GOOD = 0.8
_TUNED = " (a change by what you see here: it counts as tuned)"


@dataclass(frozen=True)
class ColumnLook:
    """One released column. Shares are between 0 and 1; `spread` and `error` are in the column's own units.

    `spread` is the standard deviation of its values between keys, `error` that of a typical key's noise, `survives` how much
    of the squared spread, and so of what it can explain, is left. None where there is no key.
    """

    name: str
    unit: str
    lower: float
    upper: float
    to_buy: bool
    missing: float
    below: float
    above: float
    spread: float | None
    error: float | None
    survives: float | None


@dataclass(frozen=True)
class RowsLook:
    """What a provider sees before paying."""

    rows: int
    inside: float | None  # share of rows whose key is in the domain
    keys: int
    empty_keys: int
    columns: tuple[ColumnLook, ...]
    ids: tuple[str, ...]  # columns called like ids in which values repeat
    better: tuple[str, ...]

    @property
    def wasteful(self) -> str | None:
        """Why all that is paid for would be noise, or None."""
        if self.inside == 0:
            return "no row has a key of the domain"
        if self.columns and all(column.survives is not None and column.survives < NOISE for column in self.columns):
            return "of every column nothing but noise would be left"
        return None


def look_at(
    table: TableLike, request: ReleaseRequest, ledger: Ledger, *, progress: Progress = lambda stage, part: None
) -> RowsLook:
    """Look at the rows with a card, and note that in the ledger first. Charges nothing; nothing of it may leave."""
    ready = prepare(table, request, ledger, progress=progress)
    facts = request.card.dataset
    note_look(request.card, facts.account or facts.name, ledger)
    progress("looking at the rows", None)
    ready = _with_keys(ready)
    rows, _ = bought_rows(ready, _Exact(), progress)
    found = aggregate(rows, ready.grid, order=1)
    counts = found.levels[0][:, 0] if found.levels else None
    features = rows.components or [column.feature for column in rows.columns]
    left = _left(found, ready.plan)
    ids = () if facts.id else tuple(repeated(ready.rows.source, list(ready.rows.source.table.columns)))
    key_columns = {part.column for part in rows.key_parts}
    return RowsLook(
        rows=found.rows,
        inside=None if counts is None or not found.rows else 1 - float(counts[-1]) / found.rows,
        keys=0 if counts is None else len(counts) - 1,
        empty_keys=0 if counts is None else int((counts[:-1] == 0).sum()),
        columns=tuple(
            _column(rows, column, feature, left[i] if left else None)
            for i, (column, feature) in enumerate(_pairs(rows, features))
        ),
        ids=tuple(name for name in ids if name not in key_columns),
        better=tuple(_better(ready, rows, found, left)) if left else (),
    )


def _with_keys(ready: Prepared) -> Prepared:
    """With the keys that a search would find without noise; where it would find none, no row has a key of the list."""
    part = ready.rows.key.to_find if ready.rows.key else None
    if ready.finding is None or part is None:
        return ready
    found = search(ready.rows, part, ready.finding, _Exact())
    return ready if found is None else with_found_keys(ready, found)


class _Exact:
    """Draws nothing: the bounds and components that a purchase would find without noise. Never for a release."""

    simulated = True

    def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        return values

    laplace = gaussian

    def choose(self, scores: np.ndarray, sensitivity: int, epsilon: float) -> int:
        return int(scores.argmin())


# ------------------------------------------------------------------------------------------------ columns


def _pairs(rows: Rows, features: Sequence[Feature | None]) -> list[tuple[Column | None, Feature]]:
    columns: list[Column | None] = [None] * len(rows.components) if rows.components else list(rows.columns)
    return [(column, feature) for column, feature in zip(columns, features, strict=True) if feature is not None]


def _column(rows: Rows, column: Column | None, feature: Feature, left: tuple[float, float, float] | None) -> ColumnLook:
    missing, below, above = _clipped(rows, column, feature)
    spread, error, survives = left or (None, None, None)
    scale = feature.scale
    return ColumnLook(
        name=feature.name,
        unit=feature.unit,
        lower=feature.lower,
        upper=feature.upper,
        to_buy=column is None or column.to_buy is not None,
        missing=missing,
        below=below,
        above=above,
        spread=None if spread is None else spread * scale,
        error=None if error is None else error * scale,
        survives=survives,
    )


def _clipped(rows: Rows, column: Column | None, feature: Feature) -> tuple[float, float, float]:
    """Shares of missing cells, and of values below and above the bounds."""
    if column is None:
        return 0.0, 0.0, 0.0
    table = kept_rows(rows)
    if feature.kind == "indicator":
        counted = table.aggregate(n=table.count(), there=table[column.column].count())
        row = rows.source.fetch(counted).to_pylist()[0]
        return (1 - row["there"] / row["n"] if row["n"] else 0.0), 0.0, 0.0
    table = table.select(x=feature_number(table[column.column], log=column.facts.log))
    x = ibis.ifelse(table.x.isnan(), ibis.null("float64"), table.x)
    counted = table.aggregate(
        n=table.count(), there=x.count(), low=(x < feature.lower).sum(), high=(x > feature.upper).sum()
    )
    row = rows.source.fetch(counted).to_pylist()[0]
    all_rows, there = row["n"] or 1, row["there"] or 1
    return 1 - row["there"] / all_rows, (row["low"] or 0) / there, (row["high"] or 0) / there


# ------------------------------------------------------------------------------------------------ what is left


def _left(found: ExactStatistics, plan: Plan) -> list[tuple[float, float, float]]:
    """Of every feature, in scaled units: spread between keys, error of a typical key, and the share that survives.

    At every key level by itself; of the levels the best counts, as looked-up values are read from all of them together.
    """
    features = found.basis.size - 1
    if not found.levels:
        return []
    best: list[tuple[float, float, float]] = []
    for feature in range(features):
        whole = 0.0
        answers = []
        for level, sums in enumerate(found.levels):
            count, sum_ = plan.block("key", 0, level), plan.block("key", 1, level)
            assert count is not None and sum_ is not None
            there = sums[:-1, 0] > 0
            n = sums[:-1, 0][there].astype(float)
            if not len(n):
                answers.append((0.0, 0.0, 0.0))
                continue
            mean = sums[:-1, 1 + feature][there] / (n * found.grid.one)
            centre = float((n * mean).sum() / n.sum())
            spread = float((n * (mean - centre) ** 2).sum() / n.sum())
            whole = max(whole, spread)
            errors = (sum_.sigma**2 + mean**2 * count.sigma**2) / n**2
            kept = float((n * spread / (spread + errors)).sum() / n.sum()) if spread > 0 else 0.0
            answers.append((math.sqrt(spread), math.sqrt(float(np.median(errors))), kept * spread / whole if whole else 0.0))
        finest = answers[0]
        best.append((finest[0], finest[1], max(answer[2] for answer in answers)))
    return best


def _better(ready: Prepared, rows: Rows, found: ExactStatistics, left: list[tuple[float, float, float]]) -> list[str]:
    """What would leave more of the columns that lose much, each with the share it would leave on average."""
    now = float(np.mean([kept for _, _, kept in left]))
    if now >= GOOD or not found.rows:
        return []
    request, told = ready.plan.request, []

    def offer(words: str, plan: Plan, sums: ExactStatistics = found) -> None:
        then = float(np.mean([kept for _, _, kept in _left(sums, plan)]))
        if then > max(1.1 * now, now + 0.02):
            told.append(f"{words}: {100 * then:.0f} % instead of {100 * now:.0f} % on average")

    narrow = _quartiles(ready)
    if narrow is not None:
        offer(
            "bounds at the quartiles, bought (a feature without bounds)", ready.plan, aggregate(narrow, ready.grid, order=1)
        )
    if request.features > 1:
        one = make_plan(replace(request, features=1, bound_squared=request.bound_squared / request.features))
        offer(f"one column by itself{_TUNED}", one)
    if rows.key is not None and len(rows.key.parts) == 1 and not rows.key.parts[0].domain.level_names:
        coarser = [name for name, _ in rows.key.parts[0].domain.parents]
        if coarser:
            told.append(
                f"coarser levels of the key beside it (--level {coarser[0]}): they help where rows per key are few{_TUNED}"
            )
    budget = request.budget
    double = Budget(2 * budget.epsilon, budget.delta)
    offer(f"twice the budget (--epsilon {plain(double.epsilon)})", make_plan(replace(request, budget=double)))
    numeric = [column for column in rows.columns if column.facts.levels is None]
    if not rows.components and len(numeric) == len(rows.columns) >= 3:
        told.append("if these columns are of one topic, their principal component in place of them (--component)")
    return told


def _quartiles(ready: Prepared) -> Rows | None:
    """The rows with public bounds replaced by the quartiles that a purchase would find, where there are enough rows."""
    price = ready.request.budget.share("0.1").epsilon
    public = [column for column in ready.rows.columns if column.facts.levels is None and column.to_buy is None]
    enough = ready.most_rows * price >= ENOUGH * ready.rows.rows_per_individual
    if not public or not enough or ready.component_plan is not None or ready.plan.request.layout != "lookup":
        return None
    bought = {column.name: price for column in public}
    columns = [
        replace(
            column, feature=None, facts=column.facts.model_copy(update={"bounds": BoughtBounds(buy=AUTO), "missing": None})
        )
        if column.name in bought
        else column
        for column in ready.rows.columns
    ]
    rows = replace(ready.rows, columns=with_quantiles(columns, QUARTILES))
    prices = ready.bought | bought
    return bought_rows(replace(ready, rows=rows, bought=prices), _Exact(), lambda stage, part: None)[0]
