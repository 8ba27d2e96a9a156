"""Postgres, where a provider's rows may live already: they are summed there.

Once, before that, they are read through on this machine, for the keyed hash by which the ledger knows a table again.

Expressions are written once for all engines; what Postgres says in other words is put into them here, before they run: a
text is read as a number only where it is one, a truth becomes 1 or 0, and digests are Postgres' own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Any, Self

import ibis
import ibis.expr.operations as ops
import pyarrow as pa

from saibot.errors import InvalidInput
from saibot.privatize.engines.engine import TableEngine

FETCHED, TOGETHER = 50_000, 20  # rows at a time, and so many times: a million rows are a batch
_DIGITS = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_DECIMAL = r"^-?[0-9]{1,38}([.][0-9]*)?$"
_MOST_WHOLE = 2.0**62  # of floats that are read as whole numbers
_NEAR_NOTHING = r"[eE]-|^[+-]?0*\.[0-9]*$"  # of texts that are numbers and no floats: too small, not too large


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def pg_input_is_valid(text: str, kind: str) -> bool:
    """Whether Postgres reads the text as that type; of version 16 and later."""
    raise NotImplementedError


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def md5(text: str) -> str:
    raise NotImplementedError


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def convert_to(text: str, encoding: str) -> bytes:
    raise NotImplementedError


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def sha256(content: bytes) -> bytes:
    raise NotImplementedError


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def encode(content: bytes, form: str) -> str:
    raise NotImplementedError


class Postgres(TableEngine):
    name = "postgres"
    extra = "postgres"

    def __init__(self, connection: Any, *, foreign: bool = False) -> None:
        super().__init__(connection, foreign=foreign)
        version = int(str(connection.version).split(".")[0].split()[0])
        if version < 16:
            raise InvalidInput(
                f"Postgres {version} cannot say whether a text is a number; 16 and later can.",
                hint="Export the table to Parquet, and privatise that file.",
            )
        connection.raw_sql("SET TIME ZONE 'UTC'").close()  # an instant has one day, whatever the server's clock is set to

    @classmethod
    def open(cls) -> Self:
        raise InvalidInput("Postgres sums a table of its own, and reads no file.", hint="Say where it is with --database.")

    def sound(self, table: ibis.Table) -> ibis.Table:
        """Without times and numbers that are infinite or longer than others have them; they are missing. Columns of other
        kinds, which no card can use, are left out."""
        columns: dict[str, Any] = {}
        for name, kind in table.schema().items():
            cell = table[name]
            if kind.is_date() or kind.is_timestamp():
                first, last = (ibis.literal(datetime(year, 1, 1)).cast(kind) for year in (2, 9998))
                columns[name] = ibis.ifelse((cell >= first) & (cell < last), cell, ibis.null(kind))
            elif kind.is_decimal():
                columns[name] = ibis.ifelse(cell.cast("string").re_search(_DECIMAL), cell, ibis.null(kind))
            elif kind.is_uuid():
                columns[name] = cell.cast("string")
            elif kind.is_numeric() or kind.is_boolean() or kind.is_string():
                columns[name] = cell
        return table.select(**columns)

    def fetch(self, expression: ibis.Table) -> pa.Table:
        return super().fetch(in_its_words(expression))

    def batches(self, expression: ibis.Table) -> Iterable[pa.RecordBatch]:
        # Rows come as objects of Python's, few at a time, and go on in batches of a size that the ledger's hash depends on.
        found = iter(self.connection.to_pyarrow_batches(in_its_words(expression), chunk_size=FETCHED))
        while some := list(islice(found, TOGETHER)):
            yield from pa.Table.from_batches(some).combine_chunks().to_batches()


def _nearest_float(text: Any) -> Any:
    """The number that a text is, or missing. Where Postgres gives up, it is infinite beyond all floats, and 0 next to 0."""
    infinite, nothing = ibis.literal(math.inf, "float64"), ibis.literal(0.0, "float64")
    return ibis.cases(
        (text.isnull(), ibis.null("float64")),  # none of the other cases is true of it
        (pg_input_is_valid(text, "double precision"), text.cast("float64")),
        (~text.re_search(_DIGITS), ibis.null("float64")),
        (text.re_search(_NEAR_NOTHING), nothing),
        (text.startswith("-"), -infinite),
        else_=infinite,
    )


def in_its_words(expression: ibis.Table) -> ibis.Table:
    """The same expression in operations that Postgres has."""

    def said(node: Any, known: dict[Any, Any] | None) -> Any:
        node = node.__recreate__(known) if known else node
        if isinstance(node, ops.TryCast) and node.to.is_floating():
            return _nearest_float(node.arg.to_expr()).op()
        if isinstance(node, ops.TryCast) and node.to.is_integer() and node.arg.dtype.is_floating():
            number = node.arg.to_expr()  # NaN is the largest of all there
            return ibis.ifelse(number.abs() < _MOST_WHOLE, number.cast(node.to), ibis.null(node.to)).op()
        if isinstance(node, ops.Cast) and node.arg.dtype.is_boolean() and node.to.is_numeric():
            truth = node.arg.to_expr()
            one, zero = ibis.literal(1).cast(node.to), ibis.literal(0).cast(node.to)
            return ibis.cases((truth.isnull(), ibis.null(node.to)), (truth, one), else_=zero).op()
        if isinstance(node, ops.HexDigest):
            text = node.arg.to_expr()
            if node.how == "md5":
                return md5(text).op()
            return encode(sha256(convert_to(text, "UTF8")), "hex").op()
        return node

    found: ibis.Table = expression.op().replace(said).to_expr()
    return found
