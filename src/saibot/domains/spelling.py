"""How keys are written: their normal form, and the other ways in which programs and people write the same key."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")  # a whole number as programs print it: no sign +, no zero in front
_NUMBERS_BEGIN = "-0123456789"
_DIGITS = re.compile(r"-?[0-9]+")
_PADDED = re.compile(r"^(-?)0+(?=[0-9])")
_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?)?")
_MIDNIGHT = "00:00:00"
_ZEROS = ("0", "-0", "-0.0")
_FLOAT = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_EXACT_FLOATS = 2**53  # whole numbers up to here are floats, too


def normal_key(text: str) -> str:
    """Keys are NFC text without surrounding white space; case is kept."""
    return unicodedata.normalize("NFC", text).strip()


def spellings(key: str) -> tuple[str, ...]:
    """How else programs write the same key: a whole number held as a float (`7.0`), a very small one with an exponent or
    without (`1e-05`, `0.00001`), a zero with a sign (`-0`), a day held as a time (midnight).

    One missing cell makes pandas hold a whole column so, and write it so; one cell with microseconds makes it write those of
    all. A key may be found under these spellings wherever no other key has them. Whole numbers beyond 2^53 have the digits
    of their nearest float, and pandas writes those from 10^16 on with an exponent.
    """
    if key[:1] not in _NUMBERS_BEGIN:
        return ()
    forms: tuple[str, ...] = ()
    whole = key.removesuffix(".0")
    if _WHOLE.fullmatch(whole):
        nearest = (whole,) if abs(int(whole[:400])) <= _EXACT_FLOATS else _nearest_float(whole)
        forms = (whole, f"{whole}.0", *nearest) if whole not in _ZEROS else ("0", "0.0", *_ZEROS[1:])
    elif small := _small(key):
        forms = (small, format(Decimal(small), "f"))
    elif time := _TIME.fullmatch(key):
        forms = _times(time[1], time[2] or _MIDNIGHT, (time[3] or "").rstrip("0"))
    return tuple(form for form in dict.fromkeys(forms) if form != key)


def shortest(key: str) -> str:
    """Of the ways that programs write a number or a day, the one without a point, with an exponent, and without a time."""
    if key.endswith(".0") and _DIGITS.fullmatch(key, 0, len(key) - 2):
        return "0" if key == "-0.0" else key[:-2]
    if key[:1] in ("0", "-") and (small := "0" if key == "-0" else _small(key)):
        return small
    return key[:10] if key.endswith(_MIDNIGHT) and _TIME.fullmatch(key) else key


def folded(key: str) -> str:
    """The key without what people write in two ways: case, zeros in front (`01001`, `1001`), and what `spellings` knows.

    Two keys of one domain may fold to the same text; then neither is found by it.
    """
    key = shortest(key)
    if key[:1] in ("0", "-"):  # a regular expression on each of millions of keys is slow
        key = _PADDED.sub(r"\1", key)
    key = key.casefold()
    return key if key.isascii() else normal_key(key)


def _small(key: str) -> str:
    """What Python writes for a number so small that it is written with an exponent; empty for any other key."""
    if not _FLOAT.fullmatch(key):
        return ""
    written = repr(float(key))
    return written if "e-" in written else ""


def _nearest_float(whole: str) -> tuple[str, ...]:
    try:
        nearest = float(whole)
        return str(int(nearest)), repr(nearest)
    except OverflowError:
        return (whole,)


def _times(day: str, clock: str, fraction: str) -> tuple[str, ...]:
    """A time with as many digits of a second as it needs, and with those that a column of times may be written with."""
    widths = [width for width in dict.fromkeys((len(fraction), 3, 6, 9)) if width >= len(fraction)]
    endings = [f"{clock}.{fraction:0<{width}}" if width else clock for width in widths]
    whole_day = (day,) if clock == _MIDNIGHT and not fraction else ()
    return (*whole_day, *(f"{day}{between}{ending}" for between in " T" for ending in endings))
