"""No table, however odd, gets more out of us than a result or a refusal that tells nothing of its cells and costs nothing.

Columns of every Arrow type, filled with the ends of their ranges, stand in every role that a card can give them. What may
come of it: a sketch; or an error of ours with a hint, without a cell in it, and with nothing charged.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from saibot.client import local_request
from saibot.client.keys import request_key
from saibot.client.tables import read_columns, write_augmented
from saibot.errors import SaibotError
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.privatize.split import split_table
from saibot.search.units import KeyColumn
from saibot.sketch import KeyDomain

EXAMPLES = settings(
    max_examples=settings().max_examples if settings().max_examples > 100 else 60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
SECRET = "SECRET-4711"

# ------------------------------------------------------------------------------------------------ columns

LONG = [-(2**63), 1 - 2**63, -1, 0, 1, 2**63 - 1]
INTS = [-(2**31), -1, 0, 1, 2**31 - 1]
FLOATS = [float("nan"), float("inf"), float("-inf"), 5e-324, -0.0, 1.7976931348623157e308, 1e17, 1.5]
TEXTS = ["a", "", " a ", "1", "1e400", "9" * 400, "nan", "1970-01-02", "99999-12-31T99:99", "\x00", SECRET, SECRET * 9000]
BYTES = [b"a", b"", b"\xff\xfe", SECRET.encode(), b"\x00"]


def nines(digits: int, scale: int) -> list[Decimal]:
    return [Decimal((sign, (9,) * digits, -scale)) for sign in (0, 1)] + [Decimal((0, (1,), -scale)), Decimal(0)]


def whole(kind: pa.DataType, width: pa.DataType, cells: list[int]) -> Callable[[list[int]], pa.Array]:
    """Whole numbers taken for another type as they are, without a check that they make sense there."""
    return lambda places: pa.array([None if i < 0 else cells[i % len(cells)] for i in places], width).view(kind)


def plain(cells: list[Any], kind: pa.DataType) -> Callable[[list[int]], pa.Array]:
    return lambda places: pa.array([None if i < 0 else cells[i % len(cells)] for i in places], kind)


def not_utf8(places: list[int]) -> pa.Array:
    cells = plain(BYTES, pa.binary())(places)
    return pa.Array.from_buffers(pa.string(), len(cells), cells.buffers(), cells.null_count)


COLUMNS: dict[str, Callable[[list[int]], pa.Array]] = {
    **{
        f"timestamp {unit} {zone}": whole(pa.timestamp(unit, zone), pa.int64(), LONG)
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "America/New_York", "+05:30")
    },
    **{f"duration {unit}": whole(pa.duration(unit), pa.int64(), LONG) for unit in ("s", "ms", "us", "ns")},
    "date32": whole(pa.date32(), pa.int32(), INTS),
    "date64": whole(pa.date64(), pa.int64(), [day * 86_400_000 for day in (-(10**11), 0, 1, 10**11)]),
    "time s": whole(pa.time32("s"), pa.int32(), [0, 1, 86_399]),
    "time us": whole(pa.time64("us"), pa.int64(), [0, 1, 86_399_000_000]),
    "time us beyond the day": whole(pa.time64("us"), pa.int64(), LONG),
    "time ns": whole(pa.time64("ns"), pa.int64(), [0, 1, 86_399_000_000_000]),
    "int64": plain(LONG, pa.int64()),
    "uint64": plain([0, 1, 2**63, 2**64 - 1], pa.uint64()),
    "int8": plain([-128, 0, 127], pa.int8()),
    "bool": plain([True, False], pa.bool_()),
    "decimal 38.0": plain(nines(38, 0), pa.decimal128(38, 0)),
    "decimal 38.38": plain(nines(38, 38), pa.decimal128(38, 38)),
    "decimal 38.10": plain(nines(38, 10), pa.decimal128(38, 10)),
    "decimal 76.0": plain(nines(76, 0), pa.decimal256(76, 0)),
    "float64": plain(FLOATS, pa.float64()),
    "float32": plain([float("nan"), float("inf"), 3.4e38, 1e-45], pa.float32()),
    "float16": lambda places: pa.array(np.array([np.nan if i < 0 else 65504.0 for i in places], np.float16)),
    "nothing": lambda places: pa.nulls(len(places)),
    "no text": lambda places: pa.nulls(len(places), pa.string()),
    "no number": lambda places: pa.nulls(len(places), pa.float64()),
    "text": plain(TEXTS, pa.string()),
    "large text": plain(TEXTS, pa.large_string()),
    "text view": plain(TEXTS[:6], pa.string_view()),
    "text that is no UTF-8": not_utf8,
    "bytes": plain(BYTES, pa.binary()),
    "bytes of one length": plain([b"aaaa", b"\xff\xfe\x00\x01"], pa.binary(4)),
    "dictionary": lambda places: plain(TEXTS, pa.string())(places).dictionary_encode(),
    "dictionary of numbers": lambda places: plain(LONG, pa.int64())(places).dictionary_encode(),
    "list": plain([[1], [], [None, 2]], pa.list_(pa.int64())),
    "list of one length": plain([[1, 2], [3, None]], pa.list_(pa.int32(), 2)),
    "struct": plain([{"a": 1}, {"a": None}], pa.struct({"a": pa.int64()})),
    "map": plain([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    "interval": plain(
        [pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([2**31 - 1, 0, 2**63 - 1])], pa.month_day_nano_interval()
    ),
    "uuid": plain([b"a" * 16, b"\xff" * 16], pa.uuid()),
}


def spellings(column: pa.Array) -> list[str]:
    """How cells may be spelled in a message; the shorter ones would be found in any text."""
    found = []
    for cell in column:
        with contextlib.suppress(ValueError, OverflowError):  # there are cells that Python cannot hold
            found.append(str(cell.as_py()))
        with contextlib.suppress(pa.ArrowException):
            found.append(str(cell.cast(pa.int64()).as_py()))
    return [text[:40] for text in found if len(text) > 4 and text != "None"]


# ------------------------------------------------------------------------------------------------ roles and holders

VALUES = {"domain": {"values": ["a", "b", "1"], "id": "k"}}
DATES = {"column": "c", "domain": {"dates": ["1970-01-01", "1970-01-05"]}}
BOUGHT = {"x": {"bounds": {"buy": "0.1"}}}
ROLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # what the card says, and what is asked
    "not in the card": ({}, {}),
    "key": ({"keys": {"c": VALUES}}, {"key": "c"}),
    "key of days": ({"keys": {"c": DATES}}, {"key": "c"}),
    "both keys": ({"keys": {"c": VALUES, "d": DATES, "cd": {"parts": ["c", "d"]}}}, {"key": "cd"}),
    "feature": ({"features": {"c": {"bounds": [0, 10]}}}, {}),
    "feature, text allowed": ({"features": {"c": {"bounds": [0, 10], "text": "missing"}}}, {}),
    "levels": ({"features": {"c": {"levels": ["a", "b"]}}}, {}),
    "bought bounds": ({"features": {"c": {"bounds": {"buy": "0.1"}}}}, {}),
    "key beside bought bounds": ({"features": BOUGHT, "keys": {"c": VALUES}}, {"key": "c"}),
    "key of days beside bought bounds": ({"features": BOUGHT, "keys": {"c": DATES}}, {"key": "c"}),
    "part of a component": (
        {"features": {"c": {"bounds": [0, 10]}, "x": {"bounds": [0, 10]}}, "component": {"of": ["c", "x"]}},
        {},
    ),
    "individual": ({"dataset": {"name": "t", "id": "c", "max_rows": 100}}, {}),
    "key of individuals": (
        {"dataset": {"name": "t", "id": "x", "max_rows": 9, "rows_per_individual": 2}, "keys": {"c": VALUES}},
        {"key": "c"},
    ),
    "key of one row": ({"keys": {"c": VALUES}}, {"key": "c", "model": "local"}),
    "key of days of one row": ({"keys": {"c": DATES}}, {"key": "c", "model": "local"}),
    "feature of the paper": (
        {"features": {"c": {"bounds": [0, 10]}, "x": {"bounds": [0, 10]}}},
        {"paper_preparation": True},
    ),
}


def in_parquet(table: pa.Table, folder: Path) -> Path:
    parquet.write_table(table, folder / "t.parquet", version="2.6")
    return folder / "t.parquet"


def in_arrow(table: pa.Table, folder: Path) -> Path:
    with pa.ipc.new_file(str(folder / "t.arrow"), table.schema) as writer:
        writer.write_table(table)
    return folder / "t.arrow"


HOLDERS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "Parquet": in_parquet,
    "Arrow file": in_arrow,
    "Arrow": lambda table, _: table,
    "pandas": lambda table, _: table.to_pandas(),
    "polars": lambda table, _: pl.from_arrow(table),
}


def held(table: pa.Table, holder: str, folder: Path) -> Any:
    """The table in a file or frame, or None where that kind cannot hold it in the first place."""
    try:
        return HOLDERS[holder](table, folder)
    except BaseException as problem:  # a panic of Polars is no Exception
        if isinstance(problem, KeyboardInterrupt):
            raise
        return None


def odd_table(kind: str, places: list[int], *, twice: bool = False) -> pa.Table:
    """A column c of this kind beside a column x of plain numbers; with `twice`, a second column c."""
    column, numbers = COLUMNS[kind](places), pa.array([float(i) for i in range(len(places))], pa.float64())
    return pa.table([column, numbers, *([column] if twice else [])], names=["c", "x", *(["c"] if twice else [])])


def refusal(attempt: Callable[[], object]) -> SaibotError | None:
    """The error that it ends with, if that is one of ours; any other is the test's failure."""
    try:
        attempt()
    except SaibotError as problem:
        return problem
    return None


def tells(problem: SaibotError, column: pa.Array) -> list[str]:
    """What a refusal says of the cells. It has to say what to do next, and no cell."""
    assert problem.hint is not None, problem.message
    return [text for text in (*spellings(column), SECRET) if text in str(problem)]


def release(source: Any, role: str, backend: str, ledger: Ledger) -> None:
    says, asked = ROLES[role]
    card = Card.parse({"dataset": {"name": "t"}, "features": {"x": {"bounds": [0, 10]}}} | says)
    terms: dict[str, Any] = {"allocation": "equal", "backend": backend} | asked
    epsilon = "10000" if "bought" in role else "0.5"  # with which one row is enough to buy bounds
    privatize(source, ReleaseRequest(card, Budget(epsilon, "1e-7"), Neighbours.REPLACE_ONE, **terms), ledger)


# -1 stands for a missing cell
PLACES = st.lists(st.integers(-1, 11), max_size=6)
DOMAINS = [KeyDomain.of("k", ["a", "b", "1"]), KeyDomain.of_dates(date(1970, 1, 1), date(1970, 1, 5))]
LONG_ENDS = [0, 1, 5, 3, -1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("odd")


@EXAMPLES
@given(
    kind=st.sampled_from(sorted(COLUMNS)),
    places=PLACES,
    twice=st.sampled_from([False, False, False, True]),
    role=st.sampled_from(sorted(ROLES)),
    holder=st.sampled_from(sorted(HOLDERS)),
    backend=st.sampled_from(["duckdb", "polars"]),
)
@example("timestamp ms None", LONG_ENDS, False, "key of days", "Parquet", "polars")
@example("timestamp ms None", LONG_ENDS, False, "key of days beside bought bounds", "Arrow file", "polars")
@example("timestamp ms None", LONG_ENDS[:1], False, "key of days of one row", "polars", "duckdb")
@example("timestamp ms +05:30", LONG_ENDS, False, "not in the card", "Parquet", "polars")
@example("timestamp s UTC", LONG_ENDS, False, "key", "Arrow file", "duckdb")
@example("text that is no UTF-8", [1, 2, 3], False, "key beside bought bounds", "Parquet", "duckdb")
@example("text that is no UTF-8", [7], False, "bought bounds", "Arrow", "polars")
@example("text that is no UTF-8", [7], False, "feature of the paper", "pandas", "polars")
@example("time us beyond the day", LONG_ENDS, False, "levels", "Parquet", "duckdb")
@example("time us beyond the day", LONG_ENDS, False, "key of individuals", "Parquet", "duckdb")
@example("date32", [0, 4, 2], False, "levels", "Arrow", "polars")
@example("duration us", LONG_ENDS, False, "key beside bought bounds", "pandas", "duckdb")
@example("decimal 76.0", [0, 1, 2], False, "not in the card", "Arrow", "polars")
@example("decimal 76.0", [0, 1, 2], False, "bought bounds", "Parquet", "polars")
@example("float64", [0, 1, 2, 5], False, "feature of the paper", "Parquet", "polars")
def test_an_odd_column_gives_a_sketch_or_a_refusal_that_is_free_and_tells_no_cell(
    folder: Path, kind: str, places: list[int], twice: bool, role: str, holder: str, backend: str
) -> None:
    table = odd_table(kind, places, twice=twice)
    source = held(table, holder, folder)
    if source is None:
        return
    ledger = Ledger(Path(tempfile.mkdtemp(dir=folder)))
    problem = refusal(lambda: release(source, role, backend, ledger))
    if problem is not None:
        assert tells(problem, table.column(0).combine_chunks()) == []
        assert ledger.accounts() == []


@EXAMPLES
@given(
    kind=st.sampled_from(sorted(COLUMNS)),
    places=PLACES,
    twice=st.sampled_from([False, False, False, True]),
    holder=st.sampled_from(sorted(HOLDERS)),
    domain=st.sampled_from(DOMAINS),
    ending=st.sampled_from([".csv", ".parquet", ".arrow"]),
)
def test_an_odd_column_is_searched_with_and_augmented_or_refused_without_a_cell(
    folder: Path, kind: str, places: list[int], twice: bool, holder: str, domain: KeyDomain, ending: str
) -> None:
    table = odd_table(kind, places, twice=twice)
    source = held(table, holder, folder)
    if source is None:
        return

    def augment() -> None:
        request_key([KeyColumn("c", "c", (domain,))], [read_columns(source, ["c"], text=["c"])])
        write_augmented(source, {"new": np.zeros(len(places))}, folder / f"wide{ending}")

    attempts: list[Callable[[], object]] = [
        lambda: local_request(source, target="x", keys={"c": domain}),
        lambda: local_request(source, target="x", features=["c"]),
        lambda: local_request(source, target="c"),
        augment,
    ]
    if isinstance(source, Path) and source.suffix == ".parquet":
        attempts += [
            lambda id=id: split_table(source, Ledger(folder / "home"), test=Decimal("0.5"), id_column=id, out=folder)
            for id in (None, "c")
        ]
    for attempt in attempts:
        problem = refusal(attempt)
        assert problem is None or tells(problem, table.column(0).combine_chunks()) == []


@pytest.mark.parametrize("kind", sorted(COLUMNS))
@pytest.mark.parametrize("places", [[], [-1], [0, 1, -1, 2, 5]])
def test_a_column_of_any_type_tells_individuals_apart_or_is_refused(tmp_path: Path, kind: str, places: list[int]) -> None:
    table = odd_table(kind, places)
    source = held(table, "Parquet", tmp_path)
    if source is None:
        return
    problem = refusal(lambda: split_table(source, Ledger(tmp_path), test=Decimal("0.5"), id_column="c", out=tmp_path))
    assert problem is None or tells(problem, table.column(0).combine_chunks()) == []


# ------------------------------------------------------------------------------------------------ text files

HEADS = [b"c,x", b"c,x,c", b"x,x,c", b"\xef\xbb\xbfc,x", b'"c","x"', b"c;x", b"", b"c", b"\xff\xfec,x", b"c,x\x00"]
CELLS = [
    *(text.encode() for text in TEXTS),
    *(b"\xff\xfe", b"\xc3\x28", b'"open', b'"a""b"', b'""', b"a,b", b"\r", b"1", b"-1e308", b"9" * 40, b"1970-01-02"),
    *(b"292278994-08-17 07:12:55.807", b"0x1p-1074", b"-inf", b"NULL", b"true", b"#a", "\u202eé".encode()),
]


@EXAMPLES
@given(
    head=st.sampled_from(HEADS),
    rows=st.lists(st.tuples(st.sampled_from(CELLS), st.sampled_from([b"1", b"2.5", *CELLS])), max_size=5),
    line=st.sampled_from([b"\n", b"\r\n"]),
    role=st.sampled_from(sorted(ROLES)),
    backend=st.sampled_from(["duckdb", "polars"]),
)
@example(b"", [(SECRET.encode(), b"1")], b"\n", "key", "duckdb")
def test_an_odd_text_file_is_released_searched_with_split_or_refused_without_a_cell(
    folder: Path, head: bytes, rows: list[tuple[bytes, bytes]], line: bytes, role: str, backend: str
) -> None:
    path = folder / "odd.csv"
    path.write_bytes(line.join([head, *(b",".join(row) for row in rows), b""]))
    ledger = Ledger(Path(tempfile.mkdtemp(dir=folder)))

    def augment() -> None:
        read = read_columns(path, ["c"], text=["c"])
        write_augmented(path, {"new": np.zeros(read.num_rows)}, folder / "wide.csv")

    attempts: list[Callable[[], object]] = [
        lambda: release(path, role, backend, ledger),
        lambda: local_request(path, target="x", keys={"c": DOMAINS[0]}),
        lambda: local_request(path, target="x", features=["c"]),
        augment,
        lambda: split_table(path, Ledger(folder / "home"), test=Decimal("0.5"), out=folder),
        lambda: split_table(path, Ledger(folder / "home"), test=Decimal("0.5"), id_column="c", out=folder),
    ]
    for attempt in attempts:
        problem = refusal(attempt)
        if problem is not None:
            assert problem.hint is not None, problem.message
            assert SECRET not in str(problem)
            if attempt is attempts[0]:
                assert ledger.accounts() == []
