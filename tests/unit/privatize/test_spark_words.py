"""What is said to Spark in other words, seen without Spark."""

from __future__ import annotations

import ibis

from saibot.privatize.cells import individual_in
from saibot.privatize.engines.spark import without_letters_as_blanks


def test_a_group_of_a_pattern_is_called_as_java_calls_it() -> None:
    """Or every id that is a whole number with a point would be one and the same individual."""
    table = ibis.table({"who": "string"}, name="rows")
    said = ibis.to_sql(without_letters_as_blanks(table.select(whose=individual_in(table.who))), dialect="pyspark")
    assert "'$1'" in said and r"\\1" not in said
