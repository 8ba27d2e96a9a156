"""What a mechanism and a layout are, and the mechanisms by name: one that is entered is in commands, pages and the audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from saibot.errors import UnsupportedPlan

if TYPE_CHECKING:
    from saibot.privacy.mechanisms.plan import Plan, PlanRequest

DEFAULT = "joint"  # where nobody names a mechanism
EXACT = "exact"  # in the place of a mechanism's name, where no noise was added: sketches of open tables


@dataclass(frozen=True, slots=True)
class Layout:
    """Which statistics a release holds. `description` is one or two sentences that pages show beside it."""

    name: str
    description: str
    keyed: bool  # statistics for every key of a domain, not of the whole table only
    levels: bool = False  # coarser levels of the key may be released as well
    products: bool = False  # products per key: rows of two tables can be paired within a key, not only means looked up
    only_order: int | None = None  # the one order it is defined for
    scatter: bool = False  # around the mean: at least two features, order 2, and a row count that is public
    tightest: int = 2  # with how many features the audit comes nearest to what is claimed


LOOKUP = Layout(
    "lookup",
    "Per key it holds a count and the sum of every feature; for the whole table also sums of products. That is made for "
    "looking up a mean per key and joining it to other rows.",
    keyed=True,
    levels=True,
    only_order=2,
)
SEMIRING = Layout(
    "semiring",
    "Per key it holds counts, sums and sums of products, so it can be joined row by row, over several tables.",
    keyed=True,
    products=True,
)
JOIN = Layout(
    "join",
    "Per key it holds counts, sums and sums of products, so it can be joined row by row.",
    keyed=True,
    products=True,
)
UNION = Layout(
    "union",
    "It has no key: counts, sums and products of the whole table, to be added to tables with the same columns.",
    keyed=False,
)


@dataclass(frozen=True)
class Mechanism:
    """One way to add noise: what it can release, its pure plan, its proof, and what people are told about it.

    Of `layouts` and `calibrations` the first is the default; a release without a key takes the first layout that has none.
    `allocations` are the ways to divide the noise between statistics, where there is a choice. `check` refuses what this
    mechanism alone knows it has no proof for, with an `UnsupportedPlan`. `confirm` says whether a plan that somebody else
    made keeps its promise, up to a relative tolerance; None: where it is the plan that is made here. `proof` is the file
    with the argument.
    """

    name: str
    description: str
    layouts: tuple[Layout, ...]
    calibrations: tuple[str, ...]
    plan: Callable[[PlanRequest], Plan]
    proof: Path
    allocations: tuple[str, ...] = ()
    check: Callable[[PlanRequest], None] = lambda request: None
    confirm: Callable[[Plan, float], bool] | None = None

    def layout(self, name: str) -> Layout:
        """The layout of this name, which the mechanism must have a proof for."""
        for one in self.layouts:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.layouts)
        raise UnsupportedPlan(f"layout {name!r} does not go with {self.name}; it has {known}.")

    def default_layout(self, *, keyed: bool, products: bool = False) -> Layout:
        """What is released where no layout is named; with `products`, what rows can be paired by."""
        for one in self.layouts:
            if one.keyed == keyed and (one.products or not products):
                return one
        wanted = "products per key" if products else "statistics per key" if keyed else "statistics of a whole table alone"
        raise UnsupportedPlan(f"{self.name} does not release {wanted}.", hint="Choose another --mechanism.")


MECHANISMS: dict[str, Mechanism] = {}


def register(mechanism: Mechanism) -> Mechanism:
    """Offer a mechanism everywhere. A name that is taken is refused, as sketches name theirs; so is one without a proof."""
    if mechanism.name in MECHANISMS:
        raise ValueError(f"there is a mechanism {mechanism.name!r} already")
    if not mechanism.proof.is_file():
        raise ValueError(f"the mechanism {mechanism.name!r} has no proof: {mechanism.proof.name} is missing")
    MECHANISMS[mechanism.name] = mechanism
    return mechanism


def mechanism_named(name: str) -> Mechanism:
    if name not in MECHANISMS:
        raise UnsupportedPlan(f"mechanism {name!r} is not known; there are {', '.join(MECHANISMS)}.")
    return MECHANISMS[name]
