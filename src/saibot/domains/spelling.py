"""How keys are written: their normal form, and the other ways in which programs and people write the same key."""

from __future__ import annotations

import re
import unicodedata

_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")  # a whole number as programs print it: no sign +, no zero in front
_NUMBERS_BEGIN = "-0123456789"
_DIGITS = re.compile(r"-?[0-9]+")
_PADDED = re.compile(r"^(-?)0+(?=[0-9])")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MIDNIGHTS = (" 00:00:00", "T00:00:00")
_EXACT_FLOATS = 2**53  # whole numbers up to here are floats, too


def normal_key(text: str) -> str:
    """Keys are NFC text without surrounding white space; case is kept."""
    return unicodedata.normalize("NFC", text).strip()


def spellings(key: str) -> tuple[str, ...]:
    """How else programs write the same key: a whole number held as a float (`7.0`), a day held as a time (midnight).

    One missing cell makes pandas hold a whole column so, and write it so. A key may be found under these spellings wherever
    no other key has them. Whole numbers beyond 2^53 have the digits of their nearest float.
    """
    if key[:1] not in _NUMBERS_BEGIN:
        return ()
    forms: tuple[str, ...] = ()
    whole, day = key.removesuffix(".0"), _without_midnight(key)
    if _WHOLE.fullmatch(whole):
        nearest = whole if abs(int(whole[:400])) <= _EXACT_FLOATS else _nearest_float(whole)
        forms = (whole, f"{whole}.0", nearest)
    elif _DAY.fullmatch(day):
        forms = (day, *(day + midnight for midnight in _MIDNIGHTS))
    return tuple(form for form in dict.fromkeys(forms) if form != key)


def folded(key: str) -> str:
    """The key without what people write in two ways: case, zeros in front (`01001`, `1001`), and what `spellings` knows.

    Two keys of one domain may fold to the same text; then neither is found by it.
    """
    if key.endswith(".0") and _DIGITS.fullmatch(key, 0, len(key) - 2):
        key = key[:-2]
    elif key.endswith("00:00:00") and _DAY.fullmatch(day := _without_midnight(key)):
        key = day
    if key[:1] in ("0", "-"):  # a regular expression on each of millions of keys is slow
        key = _PADDED.sub(r"\1", key)
    key = key.casefold()
    return key if key.isascii() else normal_key(key)


def _without_midnight(key: str) -> str:
    return next((key.removesuffix(midnight) for midnight in _MIDNIGHTS if key.endswith(midnight)), key)


def _nearest_float(whole: str) -> str:
    try:
        return str(int(float(whole)))
    except OverflowError:
        return whole
