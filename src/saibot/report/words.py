"""What a release protects, in plain words. Every sentence follows from a field of the sketch; none is decoration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from saibot.report.format import NOTHING, count, number, percent
from saibot.report.format import delta as told_delta
from saibot.report.format import epsilon as told_epsilon

PLAN_HEADS = ("where", "what", "sensitivity", "noise σ", "σ off the diagonal")
ORDERS = {0: "counts", 1: "sums", 2: "sums of products"}


@dataclass(frozen=True)
class Protection:
    """The guarantee of one sketch, as a reader without mathematics can weigh it."""

    promise: str
    strength: str
    protected: tuple[str, ...]
    not_protected: tuple[str, ...]


def protection(
    *, budget: Mapping[str, str], neighbours: str, individual: str, rows_per_individual: int = 1, preparation: str = "public"
) -> Protection:
    """From the facts of a header to sentences."""
    epsilon, delta = float(budget["epsilon"]), float(budget["delta"])
    who = individual or "one row"
    changed = (
        f"had {who} held other values, or another key"
        if neighbours == "replace-one"
        else f"had {who} not been in the table at all"
    )
    promise = (
        f"Whatever anyone concludes from this sketch would have been at most {factor(epsilon)} more or less likely {changed}"
        f"{_except(delta)}. This holds whatever else they know, and however often the sketch is used."
    )
    protected = [
        f"The values of {who}, and the key it belongs to.",
        "Against everybody: the platform, other requesters, and whoever combines this with other sources.",
        "For ever, and for any number of searches: they only read what is already noisy.",
    ]
    not_protected = [
        "What is true of the population at large. Learning that is the purpose.",
        "What the provider chose to state: names of columns, bounds, units, the list of keys, the budget.",
    ]
    if neighbours == "replace-one":
        not_protected.append("The number of rows. It is public under this neighbour relation.")
    else:
        protected.insert(1, f"Whether {who} is in the table at all, and how many rows the table has.")
    if rows_per_individual > 1:
        protected.append(f"All rows of an individual together, up to {count(rows_per_individual)}.")
        not_protected.append(f"An individual with more than {count(rows_per_individual)} rows is protected less.")
    else:
        not_protected.append("An individual who owns several rows is protected less, in proportion.")
    if preparation == "bought":
        protected.append("The bounds that were not known beforehand: they were bought from the same budget.")
    if preparation == "tuned":
        not_protected.insert(0, "What the provider saw of its rows before this was chosen, unpaid. It is not private.")
    if preparation == "nonprivate":
        not_protected.insert(0, "This table was prepared by looking at its rows without paying for it. It is not private.")
    not_protected.append("Releases about the same individuals by other organisations, or under other names, add up.")
    return Protection(promise, strength(epsilon), tuple(protected), tuple(not_protected))


def open_table() -> Protection:
    """Of an exact sketch of a public table."""
    return Protection(
        promise="Nobody is protected: this is a table that everybody can get, summed up exactly.",
        strength="none",
        protected=("Nothing. Nothing in it is a secret.",),
        not_protected=("Anything in it. Whoever published it has said that anybody may see it, cell by cell.",),
    )


def factor(epsilon: float) -> str:
    """e^ε, the factor by which a conclusion's probability may differ."""
    if epsilon > 20:
        return f"e{_power(epsilon)} times"
    return f"{number(math.exp(epsilon), 2 if epsilon < 3 else 3)} times"


def strength(epsilon: float) -> str:
    """Where this budget stands among those in use. Rough by nature, and said so."""
    if epsilon <= 0.5:
        return "very strong"
    if epsilon <= 1:
        return "strong"
    if epsilon <= 3:
        return "moderate"
    if epsilon <= 8:
        return "weak"
    return "very weak"


def account_total(budget: Mapping[str, str], spent: Mapping[str, str]) -> str:
    """What all sketches of an account have cost together, where that says more than the budget of this one. The total may be
    taken at a larger delta, where its epsilon is smaller than that of a part."""
    epsilon, delta = told_epsilon(spent["epsilon"]), told_delta(spent["delta"])
    if Decimal(spent["delta"]) != Decimal(budget["delta"]):
        return f"all sketches of this account together: ε {epsilon} at another δ, {delta} (the larger δ, the smaller ε)"
    if Decimal(spent["epsilon"]) <= Decimal(budget["epsilon"]):
        return ""
    return f"all sketches of this account together: ε {epsilon}, δ {delta}"


def mechanism(id: str, layout: str) -> tuple[str, str]:
    """What a mechanism and its layout do, in their own words."""
    from saibot.privacy.mechanisms import DEFAULT, EXACT, mechanism_named  # with scipy, which `--help` does without

    if id == EXACT:
        return "No noise was added.", mechanism_named(DEFAULT).layout(layout).description
    entry = mechanism_named(id)
    return entry.description, entry.layout(layout).description


def plan_rows(plan: Mapping[str, Any]) -> list[list[str]]:
    """The blocks of a plan as rows of a table for people, under `PLAN_HEADS`."""
    rows = []
    for block in plan["blocks"]:
        what = ORDERS.get(block["order"], f"moments of order {block['order']}")
        rows.append([
            "whole table" if block["scope"] == "global" else _level(block["level"]),
            f"{what}, around the mean" if block.get("centred") else what,
            number(block["sensitivity"]),
            number(block["sigma"]),
            number(block.get("sigma_offdiagonal")),
        ])  # fmt: skip
    return rows


def preview_rows(preview: Mapping[str, Any]) -> list[list[str]]:
    """What to expect of a release, each with its name; errors are shares of half the width of a feature's bounds."""
    found = [
        ("error of a feature's overall mean", _error(preview["mean_error"])),
        ("error of its standard deviation", _error(preview["deviation_error"])),
        ("rows per key", number(preview["rows_per_key"], 3)),
        ("error of one key's mean, before shrinkage", _error(preview["value_error"])),
        (
            "rows per key at which half the signal is left (moderate differences)",
            number(preview["rows_for_half"], 3),
        ),
        (
            "smallest gain in R² that a private request can tell from none, as far as privacy noise goes",
            number(preview["detectable_gain"], 2),
        ),
    ]
    return [[name, told] for name, told in found if told != NOTHING]


def _level(level: int) -> str:
    return "per key" if level == 0 else f"per coarser key, level {level}"


def _error(share: float | None) -> str:
    if share is None:
        return NOTHING
    return f"± {percent(share, 1 if share >= 0.01 else 0)}"


def _except(delta: float) -> str:
    return f", but for a chance of {told_delta(delta)}" if delta else ""


def _power(epsilon: float) -> str:
    return f"^{number(epsilon, 3)}"
