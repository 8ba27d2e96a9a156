"""What a release would measure of a table, without its noise, through the very code that releases use.

Two neighbouring tables are then compared part by part: how far apart their statistics are in units of the noise that the
plan claims, against what it claims that one individual can move. There is no noise in it, so one pair beyond the claim is
enough to disprove it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saibot.audit.cases import Case
from saibot.audit.sources import SourceKind
from saibot.audit.worst_pairs import exact_vector, noise_vector
from saibot.domains import KeyDomain
from saibot.errors import SaibotError
from saibot.privacy.events import Event, GaussianEvent
from saibot.privacy.ledger import Ledger
from saibot.privacy.mechanisms import Plan
from saibot.privacy.mechanisms.found_keys import FindingPlan
from saibot.privacy.neighbours import Neighbours
from saibot.privatize import bounds
from saibot.privatize.aggregate import ExactStatistics, Rows, aggregate
from saibot.privatize.checking import prepare_together, with_found_keys
from saibot.privatize.component import components_of
from saibot.privatize.key_search import count_individuals
from saibot.privatize.read import TableLike
from saibot.privatize.release import NoisyStatistics, choose_grid
from saibot.privatize.release_request import Prepared
from saibot.privatize.schema import Column, numeric_feature

ARITHMETIC = 1e-9  # what floats lose between a plan and its check
FAR, TOUCHED, REFUSAL, FACTS = "moved too far", "touches too many numbers", "refusal differs", "a public fact differs"
_TYPICAL = (0.0, 10.0)  # bounds and component that both tables of a pair are given as if bought: any will do
_TYPICAL_KEYS = [str(number) for number in range(10)]
_PLACES = 1 << 14
_WINDOW = np.linspace(-16.0, 16.0, 129)


@dataclass(frozen=True)
class NoisyPart:
    """Numbers that one purchase reads, in units of its noise, and what it claims an individual can move."""

    name: str
    values: np.ndarray
    claim: float
    order: float  # of the norm: 2 for Gaussian noise, 1 for Laplace, infinity for scores
    slack: float = 0.0
    touched: int | None = None


@dataclass(frozen=True)
class MeasuredTable:
    """One table as a release sees it: all that is public about it, and the parts that get noise."""

    facts: Any
    parts: tuple[NoisyPart, ...]


@dataclass(frozen=True)
class RefusedTable:
    """Why there is no release, as its own error says."""

    message: str


@dataclass(frozen=True)
class Comparison:
    """A pair: the largest ratio of measured to claimed over its parts, and what is wrong with it, if anything is."""

    ratio: float
    part: str
    broken: str | None = None
    said: str = ""
    claim: float = 0.0


def measure(
    table: TableLike, case: Case, source: SourceKind, ledger: Ledger, *, noise_factor: float = 1.0
) -> MeasuredTable | RefusedTable:
    """Go through preparation and aggregation as a release does. `noise_factor` pretends noise of another size."""
    try:
        together = prepare_together(table, case.requests(source.backend), ledger)
        parts = list(_parts(together, noise_factor))
    except SaibotError as problem:
        return RefusedTable(problem.message)
    facts = [_public(ready) for ready in together]
    return MeasuredTable(facts[0] if len(facts) == 1 else dict(zip(case.keys, facts, strict=True)), tuple(parts))


def compare(one: MeasuredTable | RefusedTable, other: MeasuredTable | RefusedTable) -> Comparison:
    if isinstance(one, RefusedTable) or isinstance(other, RefusedTable):
        if isinstance(one, RefusedTable) and isinstance(other, RefusedTable):
            return Comparison(0.0, "refused")
        refused = one if isinstance(one, RefusedTable) else other
        assert isinstance(refused, RefusedTable)
        return Comparison(math.inf, "refusal", REFUSAL, refused.message)
    if one.facts != other.facts:
        names = [name for name in one.facts if one.facts[name] != other.facts.get(name)]
        return Comparison(math.inf, "public facts", FACTS, ", ".join(names))
    worst = Comparison(0.0, "nothing")
    for mine, theirs in zip(one.parts, other.parts, strict=True):
        apart = mine.values - theirs.values
        ratio = float(np.linalg.norm(apart, ord=mine.order)) / mine.claim
        changed = int((apart != 0).sum())
        if mine.touched is not None and changed > mine.touched:
            said = f"{changed} numbers of {mine.name} change, {mine.touched} at most are claimed"
            return Comparison(ratio, mine.name, TOUCHED, said, mine.claim)
        if ratio > worst.ratio:
            broken = ratio > 1 + ARITHMETIC + mine.slack
            said = f"{mine.name} moves {ratio:.3g} times as far as is claimed" if broken else ""
            worst = Comparison(ratio, mine.name, FAR if broken else None, said, mine.claim)
    return worst


# ------------------------------------------------------------------------------------------------ parts


def _parts(together: Sequence[Prepared], noise_factor: float) -> Iterable[NoisyPart]:
    """All that a release reads from the rows. What is bought for several keys is bought once, with the first of them."""
    shared: Rows | None = None
    for ready in together:
        if ready.finding is not None:
            yield _counted(ready.rows, ready.finding, noise_factor)
            ready = with_found_keys(ready, KeyDomain.of_found("typical", _TYPICAL_KEYS))
        if shared is None:
            yield from _purchases(ready, noise_factor)
            shared = _with_purchases(ready)
        rows = replace(ready.rows, columns=shared.columns, components=shared.components)
        exact = aggregate(rows, ready.grid, order=ready.request.order)
        yield _statistics("the release", exact, ready.plan, noise_factor)
        if ready.coverage_event is not None:
            yield _coverage(exact, ready.coverage_event, rows.rows_per_individual, noise_factor)


def _purchases(ready: Prepared, noise_factor: float) -> Iterable[NoisyPart]:
    """What bounds and components are bought with."""
    for column in ready.rows.columns:
        if column.name in ready.bought:
            yield from _scores(ready.rows, column, ready.request.neighbours)
    if ready.component_plan is not None:
        grid = choose_grid(ready.component_plan, most_rows=ready.most_rows)
        columns = [_as_if_bought(column) for column in ready.rows.columns]
        moments = aggregate(replace(ready.rows, columns=columns, key=None), grid, order=2)
        yield _statistics("the component's moments", moments, ready.component_plan, noise_factor)


def _with_purchases(ready: Prepared) -> Rows:
    """What was bought is public to what comes after: both tables of a pair get the same, whatever it is."""
    rows = replace(ready.rows, columns=[_as_if_bought(column) for column in ready.rows.columns])
    if ready.component_plan is None:
        return rows
    facts = ready.request.card.component
    assert facts is not None
    count = len(rows.columns)
    flat = NoisyStatistics((), {0: np.ones(1), 1: np.zeros(count), 2: np.eye(count)[np.triu_indices(count)]})
    return replace(rows, components=components_of(flat, rows, facts, 1.0))


def _coverage(exact: ExactStatistics, event: Event, rows_per_individual: int, noise_factor: float) -> NoisyPart:
    """The count of rows in the domain, in units of its noise."""
    inside = np.array([float(exact.rows - exact.levels[0][-1, 0])]) / (rows_per_individual * noise_factor)
    claim = event.mu if isinstance(event, GaussianEvent) else float(getattr(event, "epsilon", 0))
    return NoisyPart("the count of rows in the domain", inside * claim, claim, 2, touched=1)


def _counted(rows: Rows, plan: FindingPlan, noise_factor: float) -> NoisyPart:
    """The counts that keys are found by, each at a place of its own that only its text decides."""
    part = rows.key.to_find if rows.key else None
    assert part is not None
    counts = count_individuals(rows, part, each=plan.keys_each)
    values = np.zeros(_PLACES)
    for key, individuals in zip(counts.keys, counts.individuals, strict=True):
        values[int(hashlib.sha256(key.encode()).hexdigest(), 16) % _PLACES] += individuals
    return NoisyPart("the counts that keys are found by", values / (plan.sigma * noise_factor), plan.mu, 2, 0.0, plan.moved)


def _scores(rows: Rows, column: Column, neighbours: Neighbours) -> Iterable[NoisyPart]:
    """The scores of the choices that bounds are bought with: on the coarse grid, and in one of the windows."""
    facts = column.to_buy
    assert facts is not None and facts.quantiles is not None
    for edges in (bounds.COARSE[::7], tuple(_WINDOW)):
        below, total = bounds.ranks(rows, column, edges)
        for quantile in map(bounds.as_fraction, facts.quantiles):
            claim = bounds.rank_sensitivity(quantile, neighbours) * rows.rows_per_individual
            scores = bounds.rank_scores(below, total, quantile).astype(float)
            yield NoisyPart(f"the scores of {column.name}'s bounds", scores, claim, math.inf)
    sides = bounds.side_scores(int(below[64]), int(below[72]), total).astype(float)  # from 0 to 2, where cells are
    yield NoisyPart(f"the sides of {column.name}'s bounds", sides, rows.rows_per_individual, math.inf)


def _as_if_bought(column: Column) -> Column:
    if column.feature is not None:
        return column
    missing = None if column.facts.missing is None else min(max(column.facts.missing, _TYPICAL[0]), _TYPICAL[1])
    facts = column.facts.model_copy(update={"missing": missing})
    return replace(column, feature=numeric_feature(column.name, facts, *_TYPICAL))


def _statistics(name: str, exact: ExactStatistics, plan: Plan, noise_factor: float) -> NoisyPart:
    values = exact_vector(exact, plan) / (noise_vector(exact, plan) * noise_factor)
    slack = 0.0
    for block in plan.blocks:
        if block.centred:  # its noise is raised by what rounding to whole numbers can add: see `release`
            m = plan.request.features
            slack = (m if plan.noise == "gaussian" else m * (m + 1) / 2) / (block.sensitivity * float(exact.grid.one) ** 2)
    if plan.mu is not None:
        return NoisyPart(name, values, plan.mu, 2, slack, plan.touched)
    # The standard deviation of a Laplace law is sqrt(2) times its decay length, which epsilon is measured in.
    claim = float(plan.request.budget.epsilon * plan.request.share)
    return NoisyPart(name, values * math.sqrt(2), claim, 1, slack, plan.touched)


def _public(ready: Prepared) -> dict[str, Any]:
    """What the sketch's header and a dry run tell of a table; it must be the same for its neighbours."""
    features = [None if column.feature is None else column.feature.model_dump() for column in ready.rows.columns]
    key = ready.rows.key
    return ready.to_json() | {
        "features": features,
        "levels": key.level_sizes if key else (),
        "most_rows": ready.most_rows,
        "bought": dict(ready.bought),
    }
