"""Who gets which share of a release's budget: keys that are found, bounds, a component's moments, and the statistics.

Shares are of mu^2, which adds up under composition, or of epsilon for Laplace noise. All of them are decided before the
first draw, from public numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal

from saibot.privacy.budget import exact_decimal
from saibot.privacy.mechanisms import Plan, PlanRequest, make_plan
from saibot.privacy.mechanisms.found_keys import FindingPlan, keys_moved, without_keys
from saibot.privatize.bounds import share_left
from saibot.privatize.card import ComponentFacts, DatasetFacts
from saibot.privatize.component import moments_plan
from saibot.privatize.key_search import keys_each, plan_to_find, share_of
from saibot.privatize.schema import Column, KeyPartColumn


@dataclass(frozen=True)
class ReleasePlans:
    """What is bought first, and the release itself: together they come to the budget."""

    release: Plan
    component: Plan | None = None
    finding: FindingPlan | None = None


def release_plans(
    main: PlanRequest,
    columns: list[Column],
    component: ComponentFacts | None,
    bought: dict[str, Decimal],
    *,
    to_find: KeyPartColumn | None = None,
    dataset: DatasetFacts | None = None,
) -> ReleasePlans:
    """The plan of the release, and those of what is bought with it. `bought` are the prices of bounds."""
    budget, searched = main.budget, 0
    if to_find is not None:
        assert dataset is not None and to_find.to_find is not None
        searched = keys_moved(keys_each(to_find.to_find, dataset.rows_per_individual), main.neighbours)
        main = replace(main, budget=without_keys(budget))
    # Each of the plans knows how many numbers the others touch: the ledger adds them up.
    moments = None if component is None else moments_plan(main, columns)
    others = searched + (moments.touched if moments is not None else 0)
    main = replace(main, extra_touched=others)
    whole = make_plan(main)
    finding = None
    share = main.share
    if to_find is not None:
        assert dataset is not None and to_find.to_find is not None
        paid, each = share_of(to_find.to_find), keys_each(to_find.to_find, dataset.rows_per_individual)
        finding = plan_to_find(whole, budget, share=paid, keys_each=each)
        share = share_left(bought, whole, found=paid)
    elif bought:
        share = share_left(bought, whole)
    if moments is None:
        return ReleasePlans(whole if share == main.share else make_plan(replace(main, share=share)), None, finding)
    assert component is not None
    fraction = exact_decimal(component.buy, name="buy")
    rest = whole.touched - moments.touched
    purchase = replace(moments.request, share=part_of(share, fraction), extra_touched=rest)
    return ReleasePlans(make_plan(replace(main, share=part_of(share, 1 - fraction))), make_plan(purchase), finding)


def part_of(share: Decimal, fraction: Decimal) -> Decimal:
    """A fraction of a share, rounded down: its parts must not come to more than it."""
    return (share * fraction).quantize(Decimal("1e-20"), rounding=ROUND_FLOOR)
