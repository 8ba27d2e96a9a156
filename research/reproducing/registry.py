"""Which figures there are and where each is made. A module is imported only when one of its figures is asked for."""

from __future__ import annotations

from importlib import import_module

from research.reproducing.figure import Figure
from saibot.errors import InvalidInput

# Each module under `figures/` has a dictionary FIGURES of the figures it makes, by name.
_MODULES = {
    "nyc": ("fig7", "fig8", "fig9"),
    "union": tuple(f"fig10{letter}" for letter in "abcdefgh"),
    "join": tuple(f"fig11{letter}" for letter in "abcd"),
    "estimator": ("fig12a", "fig12b"),
    "quality": ("quality",),
    "calibration": ("calibration",),
    "allocation": ("allocation",),
    "coverage": ("coverage",),
}
MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
NAMES = tuple(MODULE_OF)


def chosen(asked: list[str]) -> list[str]:
    """Names as people write them: `all`, one figure, or a family such as `fig10`; in the order of the paper."""
    found: set[str] = set()
    for name in asked:
        matching = {known for known in NAMES if name in ("all", known) or known[:-1] == name}
        if not matching:
            raise InvalidInput(f"there is no figure {name!r}.", hint=f"There are all, {', '.join(NAMES)}.")
        found |= matching
    return [name for name in NAMES if name in found]


def figure(name: str) -> Figure:
    if name not in MODULE_OF:
        raise InvalidInput(f"there is no figure {name!r}.", hint=f"There are {', '.join(NAMES)}.")
    found: Figure = import_module(f"research.figures.{MODULE_OF[name]}").FIGURES[name]
    return found
