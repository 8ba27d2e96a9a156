"""Polars, for those who have it at hand. It does not number rows within a group."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Self

import ibis
import ibis.expr.types as ir

from saibot.privatize.engines.engine import TableEngine
from saibot.privatize.text_file import separator_of


class Polars(TableEngine):
    name = "polars"
    extra = "polars"
    numbers_rows = False

    @classmethod
    def open(cls) -> Self:
        return cls(ibis.polars.connect())

    def read_text(self, path: Path, names: Sequence[str], *, guessed_but: tuple[str, ...] | None) -> ibis.Table:
        table: ibis.Table = self.connection.read_csv(
            path, infer_schema=False, separator=separator_of(path), new_columns=[*names]
        )
        return table

    def times(self, cell: ir.Column) -> ir.Column:
        kind = cell.type()
        if kind.scale != 3:
            return cell
        # 64 bits of milliseconds reach beyond its calendar, and there it stops.
        first, last = (ibis.literal(datetime.combine(day, time.min), kind) for day in (date.min, date.max))
        return ibis.ifelse(cell.between(first, last), cell, ibis.null(kind))

    def spelling(self, text: ir.Column) -> ir.Column | None:
        return None
