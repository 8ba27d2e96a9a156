"""The rankings there are. To add one, write it here: flags, HTTP interface and pages offer whatever is entered.

A ranking's `order` is called once a search with its engine and options, and gives a function that is called at every step
with the training table as it is then, with how many candidates are wanted, and with the level that candidates of each
provider are held to: those that are clear of their noise by it come along, wherever they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from saibot.wire import RANKINGS, InvalidOption, Ranking, SearchOptions
from saibot.wire.rankings import register

if TYPE_CHECKING:  # `saibot search --help` lists the rankings and computes nothing
    from saibot.search.engine import Best, Engine
    from saibot.search.state import State

__all__ = ["RANKINGS", "Order", "Ordered", "ranking_named"]


@dataclass(frozen=True)
class Ordered:
    """The best candidates of a step, and their places in the order of the ranking; with a best guess where there is one."""

    best: Best
    first: list[tuple[int, float | None]]


Order = Callable[["State", int, Mapping[int, float]], Ordered]


def ranking_named(name: str) -> Ranking:
    """The ranking itself; options that were made before it was removed may still name one."""
    if name not in RANKINGS:
        raise InvalidOption("rank", f"there is no ranking {name!r}")
    return RANKINGS[name]


def _by_gain(engine: Engine, options: SearchOptions, *, potential: bool = False) -> Order:
    from saibot.search.board import WantedBest

    def order(state: State, most: int, levels: Mapping[int, float]) -> Ordered:
        wanted = WantedBest(most, options.ranking_quantile, potential, engine.for_new_keys, levels)
        best = engine.best(state, wanted)
        return Ordered(best, [(place, None) for place in range(len(best.groups))])

    return order


def _by_potential_gain(engine: Engine, options: SearchOptions) -> Order:
    return _by_gain(engine, options, potential=True)


def _by_expected_gain(engine: Engine, options: SearchOptions) -> Order:
    from saibot.search.board import WantedBest
    from saibot.search.expected import CONSIDERED, QUANTILE, Expectations

    if engine.key is None:  # nothing can be joined
        return _by_gain(engine, options)
    expectations = Expectations(engine.corpus)

    def order(state: State, most: int, levels: Mapping[int, float]) -> Ordered:
        best = engine.best(state, WantedBest(max(most, CONSIDERED), QUANTILE, levels=levels))
        return Ordered(best, [*expectations.order(best, state, new_keys=engine.for_new_keys)])

    return order


USABLE = register(Ranking("usable", "the gain of the private values as they are", _by_gain))
POTENTIAL = register(
    Ranking("potential", "the gain of the provider's raw means, as far as it is sure", _by_potential_gain, "potential")
)
EXPECTED = register(
    Ranking(
        "expected",
        "what private values give now and, as a best guess, raw means would",
        _by_expected_gain,
        "expected",
        first="the most promising",
    )
)
