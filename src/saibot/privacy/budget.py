"""Budgets: (epsilon, delta) in exact decimal arithmetic."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation, localcontext

from saibot.errors import InvalidBudget

# Sums of budgets are exact or an error; only `share`, which has to divide, rounds, and it rounds down.
EXACT = Context(prec=120, traps=[Inexact, InvalidOperation])
_WRITTEN = re.compile(r"[+-]?([0-9.]{1,60}(e[+-]?[0-9]{1,9})?|inf|infinity|s?nan)", re.IGNORECASE | re.ASCII)
_DOWN = Context(prec=30, rounding=ROUND_FLOOR)


def exact_decimal(value: Decimal | str | int, *, name: str) -> Decimal:
    """Read a number as written; floats are refused, because 0.1 is not the float nearest to it."""
    if isinstance(value, bool) or not isinstance(value, Decimal | str | int):
        raise InvalidBudget(f"{name} must be a decimal string such as '0.1', not {type(value).__name__}.")
    if isinstance(value, str) and not _WRITTEN.fullmatch(value):  # Decimal reads "1" with a million blanks in it as 1
        raise InvalidBudget(f"{name} must be a decimal number such as '1' or '1e-6', of 80 letters at most.")
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise InvalidBudget(f"{name} must be a decimal number such as '1' or '1e-6'.") from None
    if not number.is_finite():
        raise InvalidBudget(f"{name} must be finite.")
    # Bounded so that exact sums stay exact: no honest budget has 1000 digits.
    if number and (abs(number.adjusted()) > 30 or len(number.as_tuple().digits) > 30):
        raise InvalidBudget(f"{name} must lie between 1e-30 and 1e30 and have at most 30 digits.")
    return number


@dataclass(frozen=True, slots=True)
class Budget:
    """An (epsilon, delta) guarantee. `Budget("1", "1e-6")`; equal numbers are equal budgets however they are written."""

    epsilon: Decimal
    delta: Decimal

    def __init__(self, epsilon: Decimal | str | int, delta: Decimal | str | int = 0) -> None:
        eps, dlt = exact_decimal(epsilon, name="epsilon"), exact_decimal(delta, name="delta")
        if eps <= 0:
            raise InvalidBudget(f"epsilon must be greater than 0, not {eps}.")
        if not 0 <= dlt < 1:
            raise InvalidBudget(f"delta must be at least 0 and less than 1, not {dlt}.")
        object.__setattr__(self, "epsilon", eps)
        object.__setattr__(self, "delta", dlt)

    @property
    def pure(self) -> bool:
        """Whether delta is 0, so that only pure (Laplace) mechanisms may serve it."""
        return self.delta == 0

    def __add__(self, other: Budget) -> Budget:
        """Basic composition: epsilons and deltas add, exactly."""
        with localcontext(EXACT):
            return Budget(self.epsilon + other.epsilon, self.delta + other.delta)

    def share(self, fraction: Decimal | str) -> Budget:
        """The given fraction of both parts, rounded down where it does not fit 30 digits."""
        part = exact_decimal(fraction, name="share")
        if not 0 < part <= 1:
            raise InvalidBudget(f"a share of the budget must be in (0, 1], not {part}.")
        with localcontext(_DOWN):
            return Budget(self.epsilon * part, self.delta * part)

    def split(self, parts: int) -> Budget:
        """One of `parts` equal parts, rounded down so that all of them together never exceed the whole."""
        if parts < 1:
            raise InvalidBudget(f"a budget splits into at least one part, not {parts}.")
        with localcontext(_DOWN):
            return Budget(self.epsilon / parts, self.delta / parts)

    def to_json(self) -> dict[str, str]:
        """Decimal strings, so that no reader turns them into floats on the way."""
        return {"epsilon": plain(self.epsilon), "delta": plain(self.delta)}

    def __str__(self) -> str:
        return f"ε={plain(self.epsilon)}, δ={plain(self.delta)}"


def plain(number: Decimal) -> str:
    """The shortest usual spelling: `1`, `0.25`, `1e-6`. One number has one spelling, so it can be hashed."""
    if number == 0:
        return "0"
    short = number.normalize(Context(prec=80))
    sign, digits, exponent = short.as_tuple()
    assert isinstance(exponent, int)
    if -5 <= short.adjusted() < 16:
        return f"{short:f}"
    mantissa = "".join(map(str, digits))
    head = mantissa[0] + ("." + mantissa[1:] if len(mantissa) > 1 else "")
    return f"{'-' if sign else ''}{head}e{exponent + len(mantissa) - 1}"
