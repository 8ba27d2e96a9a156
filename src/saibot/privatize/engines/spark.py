"""Spark, where a provider's rows are on a cluster: tables of one's own session, and Parquet files that it can read.

Spark SQL reads the escapes for a vertical tab and a form feed, which surround texts as blanks do, as the letters v and f.
So blanks are taken off by a pattern here. A group of a pattern is called $1 in Java, and \\1 is the digit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import ibis
import ibis.expr.operations as ops
import pyarrow as pa

from saibot.errors import InvalidInput
from saibot.privatize.engines.engine import TableEngine
from saibot.spark_session import open_session

_BLANKS = r"^[ \x09-\x0d]+|[ \x09-\x0d]+$"


class Spark(TableEngine):
    name = "spark"
    extra = "spark"
    connection_name: ClassVar[str] = "pyspark"  # what ibis calls it

    def __init__(self, connection: Any, *, foreign: bool = False) -> None:
        super().__init__(connection, foreign=foreign)
        # An instant has one day, whatever the cluster's clock is set to.
        connection._session.conf.set("spark.sql.session.timeZone", "UTC")

    @classmethod
    def open(cls) -> Self:
        return cls(ibis.pyspark.connect(open_session()))

    def read_text(self, path: Path, names: Sequence[str], *, guessed_but: tuple[str, ...] | None) -> ibis.Table:
        raise InvalidInput("the Spark engine reads Parquet files and tables, no text.", hint="Use --backend duckdb.")

    def fetch(self, expression: ibis.Table) -> pa.Table:
        return super().fetch(without_letters_as_blanks(expression))

    def batches(self, expression: ibis.Table) -> Iterable[pa.RecordBatch]:
        return super().batches(without_letters_as_blanks(expression))


def without_letters_as_blanks(expression: ibis.Table) -> ibis.Table:
    """The same expression with blanks, and nothing else, taken off texts, and groups of patterns by their Java names."""

    def said(node: Any, known: dict[Any, Any] | None) -> Any:
        node = node.__recreate__(known) if known else node
        if isinstance(node, ops.Strip):
            return node.arg.to_expr().re_replace(_BLANKS, "").op()
        if isinstance(node, ops.RegexReplace) and isinstance(node.replacement, ops.Literal):
            return node.copy(replacement=ops.Literal(node.replacement.value.replace("\\", "$"), node.replacement.dtype))
        return node

    found: ibis.Table = expression.op().replace(said).to_expr()
    return found
