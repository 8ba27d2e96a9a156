"""Options that several commands share, spelled once."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from saibot.privacy import Budget, Neighbours


def checked_file(sketch: Path) -> Path:
    """The path of a sketch, if a file is there."""
    from saibot.errors import InvalidSketch

    if not sketch.is_file():
        what = "is a folder, and no sketch" if sketch.is_dir() else "is not there"
        raise InvalidSketch(f"{sketch} {what}.", hint="Give the path of a .saibot file; `saibot privatize TABLE` makes one.")
    return sketch


def _mechanisms() -> list[str]:
    from saibot.privacy.mechanisms import MECHANISMS

    return [*MECHANISMS]


def _layouts() -> list[str]:
    from saibot.privacy.mechanisms import MECHANISMS

    return sorted({layout.name for one in MECHANISMS.values() for layout in one.layouts})


Mechanism = Annotated[str, typer.Option(help="How noise is sized.", autocompletion=_mechanisms)]
Layout = Annotated[str | None, typer.Option(help="Which statistics are released.", autocompletion=_layouts)]
Order = Annotated[int, typer.Option(help="Highest order of the monomials. No search reads more than 2.")]
Bound = Annotated[str | None, typer.Option(help="Norm bound of a row in scaled units. Default: the box fits in it.")]
Epsilon = Annotated[str, typer.Option(help="Privacy budget epsilon.")]
Delta = Annotated[str, typer.Option(help="Privacy budget delta; 0 means Laplace noise.")]
NeighboursOption = Annotated[
    str | None,
    typer.Option(help="replace-one or add-remove. Default: the card's, which must say it; without one, replace-one."),
]
Calibration = Annotated[str | None, typer.Option(help="classical or analytic. Default: the mechanism's own.")]
Allocation = Annotated[
    str | None, typer.Option(help="joint only: auto (default), alg2, equal, or values (best looked-up values).")
]


def budget(epsilon: str, delta: str) -> Budget:
    from saibot.privacy import Budget

    return Budget(epsilon, delta)


def neighbours(text: str | None, card: Neighbours | str | None = "replace-one") -> Neighbours:
    """What the option says, or else the card. A plan without a card may assume; a card that does not say may not."""
    from saibot.errors import InvalidInput
    from saibot.privacy import Neighbours

    chosen = card if text is None else text
    if chosen is None:
        raise InvalidInput(
            "what is a neighbouring table? Neither the card nor --neighbours says.",
            hint='Write neighbours = "replace-one" or "add-remove" into the card\'s [dataset] section.',
        )
    try:
        return Neighbours(chosen)
    except ValueError:
        raise InvalidInput(f"--neighbours is replace-one or add-remove, not {text!r}.") from None


def key_sizes(text: str | None) -> tuple[int, ...]:
    """`1500,32,5`: keys of the domain, then of each coarser level."""
    from saibot.errors import InvalidInput

    try:
        sizes = tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        sizes = (0,)
    if any(size < 1 for size in sizes):
        raise InvalidInput("--keys is a list of whole numbers, finest first, such as 1500,32,5.")
    return sizes


def bound(text: str | None) -> Decimal | None:
    from saibot.errors import InvalidInput
    from saibot.privacy.budget import exact_decimal

    if text is None:
        return None
    value = exact_decimal(text, name="--bound")
    if value <= 0:
        raise InvalidInput(f"--bound must be greater than 0, not {text}.")
    return value
