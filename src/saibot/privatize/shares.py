"""Who gets which share of a release's budget: what is bought (key coverage, keys, bounds, a component) and the statistics.

Shares are of mu^2, which adds up under composition, or of epsilon for Laplace noise. All of them are decided before the
first draw, from public numbers. Statistics by several keys of one table are several releases that share the rest; what is
bought for them is bought once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal

from saibot.privacy.budget import Budget, exact_decimal
from saibot.privacy.events import Event, Spent
from saibot.privacy.mechanisms import Plan, PlanRequest, make_plan
from saibot.privacy.mechanisms.found_keys import FindingPlan, keys_moved, without_keys
from saibot.privacy.mechanisms.value_allocation import level_shares
from saibot.privatize.bounds import share_left
from saibot.privatize.card import ComponentFacts, DatasetFacts
from saibot.privatize.component import moments_plan
from saibot.privatize.key_search import keys_each, plan_to_find, share_of
from saibot.privatize.schema import Column, KeyPartColumn

TYPICAL_KEYS = 100  # of a list that has yet to be found


@dataclass(frozen=True)
class Wanted:
    """Statistics by one key: what to plan, and the part of the key whose list has yet to be found."""

    plan: PlanRequest
    to_find: KeyPartColumn | None = None


@dataclass(frozen=True)
class ReleasePlans:
    """What is bought first, and the statistics by each key: together they come to the budget."""

    releases: tuple[Plan, ...]
    component: Plan | None = None
    findings: tuple[FindingPlan | None, ...] = (None,)


def release_plans(
    wanted: Sequence[Wanted],
    columns: list[Column],
    component: ComponentFacts | None,
    bought: dict[str, Decimal],
    *,
    dataset: DatasetFacts | None = None,
    most_rows: int = 1,
    also: Sequence[Event] = (),
) -> ReleasePlans:
    """The plans of statistics by each of some keys, and of what is bought with them.

    `bought` are the prices of bounds; `also` is what else is charged beside all this, and taken off every plan.
    """
    budget = wanted[0].plan.budget
    lists = _Lists.of(wanted, dataset, budget)
    mains = [lists.without(one.plan) for one in wanted]
    moments = None if component is None else moments_plan(mains[0], columns)
    # Each of the plans knows how many numbers the others touch: the ledger adds them up.
    alone = [make_plan(main) for main in mains] if len(mains) > 1 else []
    beside = lists.touched + Spent.of(also).touched + (moments.touched if moments is not None else 0)
    all_of_them = beside + sum(plan.touched for plan in alone)
    extra = [all_of_them - plan.touched for plan in alone] or [beside]
    mains = [replace(main, extra_touched=others) for main, others in zip(mains, extra, strict=True)]
    whole = make_plan(mains[0])
    buys = bool(bought or lists.share or also)
    share = share_left(bought, whole, found=lists.share, also=also) if buys else mains[0].share
    purchase = None
    if moments is not None and component is not None:
        fraction = exact_decimal(component.buy, name="buy")
        rest = whole.touched - moments.touched
        purchase = make_plan(replace(moments.request, share=_part(share, fraction), extra_touched=rest))
        share = _part(share, 1 - fraction)
    if len(mains) == 1:
        plans = [whole if share == mains[0].share else make_plan(replace(mains[0], share=share))]
    else:
        weights = _weights(alone, most_rows)
        plans = [make_plan(replace(m, share=_part(share, weight))) for m, weight in zip(mains, weights, strict=True)]
    return ReleasePlans(tuple(plans), purchase, lists.plans(wanted, whole))


@dataclass(frozen=True)
class _Lists:
    """The lists of keys that a release finds: their shares, how many counts each moves, the budget and what it leaves."""

    shares: tuple[Decimal, ...]
    each: tuple[int, ...]
    touched: int
    budget: Budget

    @classmethod
    def of(cls, wanted: Sequence[Wanted], dataset: DatasetFacts | None, budget: Budget) -> _Lists:
        facts = [one.to_find.to_find for one in wanted if one.to_find is not None and one.to_find.to_find is not None]
        assert dataset is not None or not facts
        each = tuple(keys_each(one, dataset.rows_per_individual) for one in facts) if dataset is not None else ()
        shares = tuple(share_of(one, lists=len(facts)) for one in facts)
        return cls(shares, each, sum(keys_moved(one, wanted[0].plan.neighbours) for one in each), budget)

    @property
    def share(self) -> Decimal:
        return sum(self.shares, Decimal(0))

    def without(self, main: PlanRequest) -> PlanRequest:
        """What is planned beside the lists: their part of delta is taken off."""
        return replace(main, budget=without_keys(self.budget)) if self.shares else main

    def plans(self, wanted: Sequence[Wanted], whole: Plan) -> tuple[FindingPlan | None, ...]:
        """For each key how its list is found, or None where it is known."""
        terms = iter(zip(self.shares, self.each, strict=True))
        found: list[FindingPlan | None] = []
        for one in wanted:
            if one.to_find is None:
                found.append(None)
                continue
            share, each = next(terms)
            found.append(plan_to_find(whole, self.budget, share=share, keys_each=each, lists=len(self.shares)))
        return tuple(found)


def _weights(alone: Sequence[Plan], rows: int) -> list[Decimal]:
    """How statistics by several keys divide what there is: so that the values looked up by all of them are most certain.

    This is the way of the allocation `values` with the levels of one key, here by the keys' finest levels; half is divided
    evenly.
    """
    request = alone[0].request
    sizes = tuple(plan.request.keys[0] if plan.request.keys else TYPICAL_KEYS for plan in alone)
    sums = alone[0].block("key", 1)
    assert sums is not None
    squared = float(request.bound_squared)
    rho_squared = squared / (3 * request.features)
    shares = level_shares(sizes, rows, sum_noise=sums.sigma, rho_squared=rho_squared, bound_squared=squared)
    return [Decimal(float(share)).quantize(Decimal("0.0001"), rounding=ROUND_FLOOR) for share in shares]


def _part(share: Decimal, fraction: Decimal) -> Decimal:
    """A fraction of a share, rounded down: its parts must not come to more than it."""
    return (share * fraction).quantize(Decimal("1e-20"), rounding=ROUND_FLOOR)
