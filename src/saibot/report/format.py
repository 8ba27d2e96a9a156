"""Numbers, dates, sizes and strangers' text as people read them."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from unicodedata import category

NOTHING = "–"
_LOOSE_SYMBOL = re.compile(r"(?:± |[εδμσ] (?:[=≤<] )?)(?=[\d−])")
_LOOSE_UNIT = re.compile(r"(?<=\d) %")


def number(value: float | None, digits: int = 4) -> str:
    """Significant digits without needless zeros; powers of ten only where they save reading."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e9:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{_minus(mantissa)}×10{_raised(int(exponent))}"
    places = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    text = _grouped(value, places)
    return _minus(text.rstrip("0").rstrip(".") if "." in text else text)


def signed(value: float | None, places: int = 3) -> str:
    """A gain or a slope: the sign is part of the message."""
    return NOTHING if value is None else _minus(f"{value:+.{places}f}")


def fixed(value: float | None, places: int = 3) -> str:
    """The same number of places in every row of a column; what rounds to 0 has no sign."""
    return NOTHING if value is None else _minus(f"{round(value, places) + 0.0:.{places}f}")


def percent(share: float | None, places: int = 0) -> str:
    """A share of something; small shares keep a digit, so that little does not read as none."""
    if share is None or not math.isfinite(share):
        return NOTHING
    if 0 < abs(share) < 0.01 and places == 0:
        return f"{number(100 * share, 2)} %"
    return f"{_minus(f'{100 * share:.{places}f}')} %"


def count(value: float | None) -> str:
    return NOTHING if value is None else f"{round(value):,}"


def with_error(value: float | None, error: float | None, unit: str = "") -> str:
    """`12.3 ± 0.4 (minute)`, no more digits than the error leaves a meaning to."""
    if value is None:
        return NOTHING
    if not error or not math.isfinite(error):
        return in_unit(number(value), unit)
    places = max(1 - math.floor(math.log10(error)), 0)
    if places > 8 or abs(value) >= 1e9:
        return in_unit(f"{number(value)} ± {number(error, 2)}", unit)
    return in_unit(f"{_minus(_grouped(value, places))} ± {_grouped(error, places)}", unit)


def in_unit(told: str, unit: str) -> str:
    """`5.55 (minute)`. Units are names in the singular, as their cards have them: in brackets they need no plural."""
    return f"{told} ({unit})" if unit else told


def epsilon(value: str | float | None) -> str:
    """An epsilon as people read it: exactly where that is short, else two places, rounded up. What was spent is never told
    smaller than it is."""
    exact = _decimal(value)
    if exact is None:
        return NOTHING if value is None else str(value)
    if Decimal("0.01") <= exact < 1_000_000 and exact != round(exact, 3):
        exact = exact.quantize(Decimal("0.01"), rounding=ROUND_CEILING)
    text = f"{exact.normalize():f}"
    return text if len(text) <= 12 else number(float(exact), 3)


def delta(value: str | float | None) -> str:
    """`10⁻⁶`, however it was written."""
    exact = _decimal(value)
    if exact is None:
        return NOTHING if value is None else str(value)
    text = number(float(exact), 3)
    return text.removeprefix("1×") if text.startswith("1×10") else text


def size(content: int | None) -> str:
    """Bytes, kilobytes, megabytes."""
    if content is None:
        return NOTHING
    amount, units = float(content), ["bytes", "kB", "MB", "GB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:,.0f} {units[0]}" if units[0] == "bytes" or amount >= 100 else f"{amount:,.1f} {units[0]}"


def day(moment: str | datetime | date | None) -> str:
    """`5 March 2026`, from an ISO text or a date."""
    if moment is None or moment == "":
        return NOTHING
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    return f"{moment.day} {moment:%B %Y}"


def minute(moment: str | datetime | None) -> str:
    """`5 March 2026, 14:03 UTC`."""
    if moment is None or moment == "":
        return NOTHING
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return f"{day(moment)}, {moment:%H:%M} UTC"


def plural(amount: float | None, one: str, many: str | None = None) -> str:
    """`1 key`, `1,500 keys`."""
    if amount is None:
        return NOTHING
    return f"{count(amount)} {one if round(amount) == 1 else many or one + 's'}"


def unbroken(text: str) -> str:
    """The same text, in which no line begins between a sign or a symbol and its number."""
    return _LOOSE_UNIT.sub("\u00a0%", _LOOSE_SYMBOL.sub(lambda found: found[0].replace(" ", "\u00a0"), text))


def plain_text(text: object, *, most: int = 2000) -> str:
    """Text of strangers as it may be shown in a terminal: one line, nothing that moves the cursor."""
    shown = "".join(letter if letter.isprintable() else " " for letter in str(text))
    return shown if len(shown) <= most else shown[:most] + "…"


def printable(text: str) -> str:
    """Without control and formatting characters, but for line ends."""
    if text.isprintable():
        return text
    return "".join(letter for letter in text if letter == "\n" or letter.isprintable() or category(letter) == "Zs")


def one_line(text: object) -> str:
    """The same of strangers, who begin no line of their own either."""
    said = str(text)
    return said if said.isprintable() else printable(" ".join(said.splitlines()))


def _decimal(value: str | float | None) -> Decimal | None:
    """None for what is no number: budgets that somebody wishes for are texts of strangers."""
    try:
        exact = Decimal(str(value)) if value is not None else None
    except InvalidOperation:
        return None
    return exact if exact is not None and exact.is_finite() and abs(exact.adjusted()) < 100 else None


def _grouped(value: float, places: int) -> str:
    """With separators of thousands from 10,000 on: below, a number is as easily a year."""
    text = f"{value:.{places}f}"
    return text if abs(float(text)) < 10_000 else f"{value:,.{places}f}"


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _raised(exponent: int) -> str:
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
