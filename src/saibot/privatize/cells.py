"""What one cell means: as a number, as a key, as a level. It depends on that cell and the card alone, never on other rows.

Files, frames and databases hold the same cell in many ways, and often choose one for a whole column by looking at all of
its rows: an integer becomes a float where another cell is missing, a decimal gets another cell's digits, a day becomes a
time. So cells are brought to one normal form here, in Python for cells in memory, as expressions for cells in an engine:

- a number is its nearest float64, whatever type held it; text is a number where it reads as one (`NUMBER`, true, false);
- a key or a level is text, NFC, without surrounding blanks; a whole number is written without a point, a midnight as its
  day, an instant with a time zone as UTC;
- what does not fit is missing.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from saibot.domains import normal_key, spellings
from saibot.privatize.engines import TableEngine
from saibot.privatize.logarithms import log2_in

_BLANKS = " \t\n\r\v\f"
NUMBER = r"^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[iI][nN][fF]([iI][nN][iI][tT][yY])?)$"
_NUMBER = re.compile(NUMBER)
_WHOLE_NUMBER = r"^([+-]?[0-9]+)\.0+$"
_TINY = r"^-?0\.0000[0-9]*[1-9]$"  # which a float writes with an exponent
_DAY_AND_T = r"^([0-9]{4}-[0-9]{2}-[0-9]{2})T"  # as Python writes times, and engines with a blank
_ZEROS = r"(:[0-9]{2}\.[0-9]*[1-9])0+$"  # at the end of a fraction: somebody else's microseconds write them for everybody
_WHOLE_SECOND = r"(:[0-9]{2})\.0+$"
_MIDNIGHT = r" 00:00:00$"
_spellings = lru_cache(maxsize=4096)(spellings)  # every level is held against all others
NO_TEXT = (OverflowError, ValueError, NotImplementedError)  # of a cell that Python cannot hold; the last one is of pandas


# ------------------------------------------------------------------------------------------------ in memory


def text_of(cell: object) -> str:
    """The normal text of a cell; an empty text, which no domain holds, for a missing one."""
    match cell:
        case None:
            return ""
        case bool():
            return "true" if cell else "false"
        case int() | float() | Decimal():
            return _number_text(cell)
        case complex() if cell.imag == 0:
            return _number_text(cell.real)
        case datetime():
            moment = cell if cell.tzinfo is None else cell.astimezone(UTC).replace(tzinfo=None)
            whole_day = moment.time() == moment.time().min and not getattr(moment, "nanosecond", 0)  # of pandas
            return moment.date().isoformat() if whole_day else moment.isoformat()
        case date():
            return cell.isoformat()
        case str():
            return normal_key(cell)
    if isinstance(cell, np.datetime64):
        return text_of(cell.astype("datetime64[us]").item())
    if isinstance(cell, np.generic):
        return text_of(cell.item())
    return normal_key(str(cell))


def _number_text(number: int | float | Decimal) -> str:
    """Through float64, so that a whole number reads alike whether an integer, a float or a decimal held it."""
    try:
        nearest = float(number)
    except (OverflowError, ValueError):  # beyond all floats; a signalling NaN
        return ""
    if math.isnan(nearest):
        return ""
    return str(int(nearest)) if math.isfinite(nearest) and nearest == int(nearest) else repr(nearest)


def number_of(text: str) -> float | None:
    """The number that a text is, or None."""
    stripped = text.strip(_BLANKS)
    if _NUMBER.match(stripped):
        return float(stripped)
    return {"true": 1.0, "false": 0.0}.get(stripped.lower())


def texts_of(values: pa.Array) -> list[str]:
    """The normal texts of cells; empty for one that Python cannot hold, as a date of the year 12000."""
    try:
        return [text_of(value) for value in values.to_pylist()]
    except NO_TEXT:  # one such cell must not stop the release of all others
        return [_scalar_text(value) for value in values]


def _scalar_text(value: pa.Scalar) -> str:
    try:
        return text_of(value.as_py())
    except NO_TEXT:
        return ""


# ------------------------------------------------------------------------------------------------ in an engine


def number_in(cell: ir.Column) -> ir.FloatingColumn:
    """A cell as a float64; missing where it is none."""
    kind = cell.type()
    if kind.is_string():
        text = cell.strip()
        return ibis.cases(
            (text.re_search(NUMBER), text.try_cast("float64")),
            (text.lower() == "true", _float(1.0)),
            (text.lower() == "false", _float(0.0)),
        )
    if kind.is_decimal():  # by its text: engines divide by the scale, which another row may have set, and round
        return cell.cast("string").try_cast("float64")
    return cell.cast("float64")


def feature_number(cell: ir.Column, *, log: bool) -> ir.FloatingColumn:
    """A cell as the number that a feature is made of: itself, or its logarithm."""
    number = number_in(cell)
    return log2_in(number) if log else number


def is_level(cell: ir.Column, level: str, levels: Sequence[str]) -> ir.BooleanValue:
    """Whether a cell is this level of a category. A level is text; a number, a truth or a date is compared by its value."""
    kind = cell.type()
    others = {form for other in levels if other != level for form in (other, *_spellings(other))}
    forms = [level, *(form for form in _spellings(level) if form not in others)]
    hit: ir.BooleanValue
    if kind.is_boolean():
        hit = (cell == (level == "true")) if level in ("true", "false") else ibis.literal(False)
    elif kind.is_numeric():
        numbers = {number for form in forms if (number := number_of(form)) is not None and text_of(number) in forms}
        hit = number_in(cell).isin([_float(number) for number in numbers]) if numbers else ibis.literal(False)
    elif kind.is_date() or kind.is_timestamp():
        moment = _moment(level)
        moment = moment if moment is not None and text_of(moment) in forms else None  # 20240101 is no day in a text either
        hit = (_timestamp(cell) == ibis.literal(moment, "timestamp")) if moment is not None else ibis.literal(False)
    else:
        decomposed = [unicodedata.normalize("NFD", form) for form in forms]
        hit = cell.cast("string").strip().isin([*dict.fromkeys([*forms, *decomposed])])
    return hit.fill_null(False)


def day_in(cell: ir.Column, engine: TableEngine) -> ir.Column:
    """The day of a time, also of one in ISO text, which is what text files hold."""
    kind = cell.type()
    if kind.is_timestamp():
        return engine.times(cell).date()
    if kind.is_string():
        text = cell.strip()
        return ibis.ifelse(text.substr(10, 1).isin([" ", "T"]), text.substr(0, 10), text)
    return cell


def individual_in(cell: ir.Column) -> ir.Column:
    """Whose row it is, the same whatever type holds the column; missing where that is not said.

    Somebody's word in a column of numbers makes texts of everybody's: `1.0` or `1`, `-0`, `0.00001` where a float is written
    as `1e-05`, and `NaN` where there was none.
    """
    kind = cell.type()
    if kind.is_floating():
        whole = cell.try_cast("int64")  # missing beyond 64 bits
        text = ibis.ifelse(whole.cast("float64") == cell, whole.cast("string"), cell.cast("float64").cast("string"))
        return ibis.ifelse(cell.isnan(), ibis.null("string"), text)
    if not kind.is_string():
        return cell
    # No other text is read as a number: 104.1 and 104.10 may be two individuals, and so may long digits of the same float.
    return ibis.cases(
        (cell.strip().lower() == "nan", ibis.null("string")),
        (cell.re_search(_TINY), cell.try_cast("float64").cast("string")),
        else_=cell.re_replace(_WHOLE_NUMBER, r"\1").re_replace("^-0$", "0"),
    )


def comparable_text(cell: ir.Column) -> ir.StringValue:
    """A text that is the same for cells of the same value, whatever type holds them. For hashes that stay here."""
    kind = cell.type()
    if kind.is_numeric() or kind.is_boolean() or kind.is_null():
        text = _number_as_text(number_in(cell))
    elif kind.is_date() or kind.is_timestamp():
        text = _time_as_text(_timestamp(cell).cast("string"))
    elif kind.is_string():
        words = cell.strip()
        # NaN is missing here too: somebody's word in a column of floats makes a text of everybody's NaN.
        spelled = ibis.ifelse(words.lower() == "nan", ibis.null("string"), words)
        text = ibis.coalesce(_number_as_text(number_in(cell)), _time_as_text(spelled))
    elif kind.is_uuid():
        text = cell.cast("string")
    else:  # a time of day, an interval: spelled by no two engines alike, and DuckDB stops at one beyond 24 hours
        text = ibis.literal("")
    return text.fill_null("")


def _number_as_text(number: ir.FloatingColumn) -> ir.StringValue:
    """Missing for NaN: a frame of floats holds a missing cell so, and as missing where somebody's text made it objects."""
    unsigned = ibis.ifelse(number == _float(0.0), _float(0.0), number)  # of -0.0 the text that an object has is 0
    return ibis.ifelse(number.isnan(), ibis.null("string"), unsigned.cast("string"))


def _time_as_text(text: ir.StringValue) -> ir.StringValue:
    blank = text.re_replace(_DAY_AND_T, r"\1 ")
    return blank.re_replace(_ZEROS, r"\1").re_replace(_WHOLE_SECOND, r"\1").re_replace(_MIDNIGHT, "")


def _timestamp(cell: ir.Column) -> ir.Column:
    return cell.cast("timestamp") if cell.type().is_date() else cell


def _moment(level: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(level)
    except ValueError:
        return None
    return moment if moment.tzinfo is None else None


def _float(value: float) -> ir.FloatingScalar:
    return ibis.literal(value, "float64")
