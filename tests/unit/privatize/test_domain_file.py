"""Domain files: first column the key, further columns its parents, everything text."""

from __future__ import annotations

import gzip
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from saibot.errors import InvalidDomain
from saibot.privatize.domain_file import read_domain

TEXT = 'dbn,district,"borough, name"\n 01M015 ,01,Manhattan\n02M001,02,Manhattan\n13K003,13,Zu\u0308rich\n'


@pytest.mark.parametrize("name, content", [("d.csv", TEXT.encode()), ("d.csv.gz", gzip.compress(TEXT.encode(), mtime=0)),
                                           ("d.csv", b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())],
                         ids=["plain", "gzip", "byte order mark"])  # fmt: skip
def test_keys_and_parents_are_read_as_text_in_file_order(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    domain = read_domain(tmp_path / name, id="nyc-dbn", version=2)
    assert domain.values == ("01M015", "02M001", "13K003") and (domain.id, domain.version) == ("nyc-dbn", 2)
    assert domain.parents == (
        ("district", ("01", "02", "13")),
        ("borough, name", ("Manhattan", "Manhattan", "Zürich")),
    )
    assert domain.with_levels(["district"]).level_values(1) == ("01", "02", "13")


def test_a_file_of_keys_alone_has_no_levels(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("key\n007\n08\n", encoding="utf-8")
    domain = read_domain(tmp_path / "d.csv", id="d", version=1)
    assert domain.values == ("007", "08") and domain.parents == ()


def test_a_parquet_file_may_hold_numbers_and_dates(tmp_path: Path) -> None:
    """0 is a key like any other."""
    table = pa.table({"k": [0, 1, 2], "day": [date(2013, 1, 1), date(2013, 1, 1), date(2013, 1, 2)]})
    parquet.write_table(table, tmp_path / "d.parquet")
    domain = read_domain(tmp_path / "d.parquet", id="d", version=1)
    assert domain.values == ("0", "1", "2") and dict(domain.parents)["day"] == ("2013-01-01", "2013-01-01", "2013-01-02")


@pytest.mark.parametrize(
    "content, rule",
    [
        (b"", "no readable"),
        (b"key\n", "is empty"),
        (b"key\na\nb\na \n", "twice: in row 1 and in row 3"),
        (b"key,up\na,x\n,x\n", "row 2 .* has no key"),
        (b"key,up\na,x\nb\n", "no readable"),
        (b"key,up\na,x\nb,\n", "row 2 .* has no parent in column 'up'"),
        (b"key\n\xff\xfe\n", "no readable"),
        (b"key\n__other__\n", "reserved"),
    ],
)
def test_a_file_that_is_no_domain_is_refused_in_one_line(tmp_path: Path, content: bytes, rule: str) -> None:
    (tmp_path / "d.csv").write_bytes(content)
    with pytest.raises(InvalidDomain, match=rule) as caught:
        read_domain(tmp_path / "d.csv", id="d", version=1)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_bad_parquet_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidDomain, match="missing"):
        read_domain(tmp_path / "gone.csv", id="d", version=1)
    with pytest.raises(InvalidDomain, match="missing"):
        read_domain(tmp_path / "gone.parquet", id="d", version=1)
    (tmp_path / "bad.parquet").write_bytes(b"key\na\n")
    with pytest.raises(InvalidDomain, match="no readable"):
        read_domain(tmp_path / "bad.parquet", id="d", version=1)
    with pytest.raises(InvalidDomain):
        read_domain(tmp_path, id="d", version=1)


def test_keys_without_a_text_and_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    beyond = pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32())
    parquet.write_table(pa.table({"day": beyond}), tmp_path / "days.parquet")
    with pytest.raises(InvalidDomain, match="no text"):
        read_domain(tmp_path / "days.parquet", id="d", version=1)
    (tmp_path / "twice.csv").write_text("k,p,p\na,1,2\n", encoding="utf-8")
    with pytest.raises(InvalidDomain, match="two of one name"):
        read_domain(tmp_path / "twice.csv", id="d", version=1)


LOOKUP = "name,ward,district,side\nNorth,n,up,left\nSouth,s,down,left\nEast,e,up,right\n"


def test_columns_may_be_chosen_by_name(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(LOOKUP, encoding="utf-8")
    domain = read_domain(tmp_path / "d.csv", id="d", version=1, key="ward", levels=["district"])
    assert domain.values == ("n", "s", "e") and domain.parents == (("district", ("up", "down", "up")),)
    every = read_domain(tmp_path / "d.csv", id="d", version=1, key="ward")
    assert [name for name, _ in every.parents] == ["name", "district", "side"]
    assert read_domain(tmp_path / "d.csv", id="d", version=1, levels=[]).parents == ()


@pytest.mark.parametrize(
    "chosen, rule",
    [
        ({"key": "code"}, "no column 'code'.*name, ward, district, side"),
        ({"levels": ["region"]}, "no column 'region'"),
        ({"key": "ward", "levels": ["ward"]}, "'ward', or it is named twice"),
        ({"key": "ward", "levels": ["district", "side"]}, "level 'side' .* is not nested"),
    ],
)
def test_columns_that_are_not_there_or_not_nested_are_named(tmp_path: Path, chosen: dict[str, Any], rule: str) -> None:
    (tmp_path / "d.csv").write_text(LOOKUP, encoding="utf-8")
    with pytest.raises(InvalidDomain, match=rule):
        read_domain(tmp_path / "d.csv", id="d", version=1, **chosen)
