"""What can go wrong in the algebra; a branch of the tree in `saibot.errors`.

SemiringError (an InvalidInput and a ValueError)
├── FeatureNameError   a feature's name that is empty, taken or reserved
├── UnknownMonomial    a monomial that the basis does not hold
└── IntegerOverflow    an exact integer result beyond 64 bits

Messages name features, sizes and types, never a key or a number: the operands may be raw.
"""

from __future__ import annotations

from saibot.errors import InvalidInput


class SemiringError(InvalidInput, ValueError):
    """An operation of the semi-ring was asked for something it is not defined on."""


class FeatureNameError(SemiringError):
    """A feature's name that is empty, taken or reserved."""

    def __init__(self, name: object, rule: str) -> None:
        super().__init__(f"Feature name {name!r} {rule}.")
        self.name = name


class UnknownMonomial(SemiringError):
    """A monomial that the basis does not hold."""

    def __init__(self, monomial: str, *, features: tuple[str, ...], order: int) -> None:
        super().__init__(f"There is no monomial {monomial!r} in the basis of order {order} over ({', '.join(features)}).")
        self.monomial = monomial


class IntegerOverflow(SemiringError):
    """An exact integer result beyond 64 bits: refused, because numpy would wrap around in silence."""

    def __init__(self, what: str) -> None:
        super().__init__(f"The {what} does not fit into 64-bit integers.")
