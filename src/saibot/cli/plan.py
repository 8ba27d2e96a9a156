"""`saibot plan`: how much noise a release would carry. Reads no data."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli import options
from saibot.cli.show import JsonOption, print_json, say
from saibot.cli.terms import ReleaseTerms, TermsCommand, with_terms
from saibot.report.format import number
from saibot.report.terminal import print_table
from saibot.report.words import PLAN_HEADS, plan_rows

if TYPE_CHECKING:
    from saibot.privacy.events import Event
    from saibot.privacy.mechanisms import Plan
    from saibot.privacy.mechanisms.found_keys import FindingPlan


def add_to(app: typer.Typer) -> None:
    app.command("plan", cls=TermsCommand)(plan)


@with_terms
def plan(
    *,
    terms: ReleaseTerms,
    features: Annotated[int, typer.Option(help="Number of features.")] = 1,
    levels: Annotated[int, typer.Option(help="Key levels of layout lookup; level 0 is the finest.")] = 1,
    keys: Annotated[str | None, typer.Option(help="Public number of keys of each level, finest first: 1500,32,5.")] = None,
    rows: Annotated[int | None, typer.Option(help="Public number of rows.")] = None,
    rows_per_individual: Annotated[int, typer.Option(help="Rows that one individual may own.")] = 1,
    buy: Annotated[
        list[str] | None, typer.Option(help="Share of ε that buys the bounds of a feature, such as 0.1. Repeatable.")
    ] = None,
    find: Annotated[
        str | None, typer.Option(help="Share of μ² that finds the keys, where nobody has a list of them, such as 0.2.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print sensitivity, noise and cost of a release before any data is read."""
    from saibot.privacy.mechanisms import make_plan

    request = terms.plan_request(
        features=features,
        keyed=True,
        levels=levels,
        keys=options.key_sizes(keys),
        rows=rows,
        rows_per_individual=rows_per_individual,
    )
    budget, finding = request.budget, None
    if find is not None:
        from saibot.privacy.mechanisms.found_keys import keys_moved, without_keys

        moved = keys_moved(rows_per_individual, request.neighbours)
        request = replace(request, budget=without_keys(budget), extra_touched=moved)
    made, bought = make_plan(request), dict[str, Decimal]()
    events: list[Event] = []
    if find is not None or buy:
        from saibot.privatize.bounds import bounds_event, share_left
        from saibot.privatize.key_search import plan_to_find, searching_share

        share = searching_share(find) if find is not None else Decimal(0)
        if find is not None:
            finding = plan_to_find(made, budget, share=share, keys_each=rows_per_individual)
            events.append(finding.event)
        bought = {f"feature {place}": budget.share(part).epsilon for place, part in enumerate(buy or (), 1)}
        events += [bounds_event(price, budget) for price in bought.values()]
        made = make_plan(replace(request, share=share_left(bought, made, found=share)))
    if json:
        found = {"finding": finding.to_json()} if finding else {}
        print_json(made.to_json() | found | {"events": [event.to_json() for event in (*events, *made.events)]})
    else:
        show_plan(made)
        show_finding(finding)
        show_bounds(bought, made)


def show_finding(finding: FindingPlan | None) -> None:
    """How common a key has to be where keys are found in the rows, and what that costs."""
    if finding is not None:
        say(
            f"Keys are found: it takes about {finding.least_individuals:,} individuals with one key (noise of a count "
            f"{number(finding.sigma)}), and costs μ={finding.mu:.3g} and δ={number(float(finding.delta))}."
        )


def show_bounds(bought: dict[str, Decimal], made: Plan) -> None:
    """What bounds cost that are bought beside a plan."""
    from saibot.privatize.bounds import price_in_words

    if bought:
        each = ", ".join(f"{name} {price_in_words(price, made.request.budget)}" for name, price in bought.items())
        left = f"{number(100 * float(made.request.share), 3)} % of {'ε' if made.mu is None else 'μ²'}"
        say(f"Bounds are bought: {each}. The release has {left}.")


def show_plan(made: Plan) -> None:
    request = made.request
    cost = f"μ = {number(made.mu)}" if made.mu is not None else "pure ε"
    title = (
        f"{request.mechanism} {request.layout}, {made.noise} noise ({made.calibration}), {request.budget}, "
        f"{request.neighbours}, {cost}"
    )
    print_table(title, PLAN_HEADS, plan_rows(made.to_json()), right=(2, 3, 4))
    say(
        f"Statistics are in scaled units: features lie in [-1, 1], a row's norm is at most {number(request.bound)}. "
        f"The row count is {'public' if request.row_count_public else 'protected'}."
    )
