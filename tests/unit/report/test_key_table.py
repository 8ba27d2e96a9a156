"""A table by key to take along, in three forms with the same numbers."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pyarrow as pa

from saibot.report.key_table import KINDS, KeyTable

TABLE = KeyTable({"day": ["2013-01-01", "=SUM(B1)"]}, {"@rain": np.array([1.25, np.nan])})


def test_the_three_forms_hold_the_same_numbers() -> None:
    lines = list(csv.reader(io.StringIO(TABLE.written("csv").decode("utf-8-sig"))))
    assert lines == [["day", "'@rain"], ["2013-01-01", "1.25"], ["'=SUM(B1)", ""]]
    assert json.loads(TABLE.written("json")) == [
        {"day": "2013-01-01", "@rain": 1.25},
        {"day": "=SUM(B1)", "@rain": None},
    ]
    table = pa.ipc.open_file(pa.BufferReader(TABLE.written("arrow"))).read_all()
    assert table.to_pydict() == {"day": ["2013-01-01", "=SUM(B1)"], "@rain": [1.25, None]}
    assert set(KINDS) == {"csv", "arrow", "json"}
