"""The sketch file is a contract: what a version means is fixed, and nothing but a sound file of one is read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from saibot.errors import InvalidSketch
from saibot.sketch import Sketch, allowed, read_sketch, write_sketch
from saibot.sketch import file as sketch_file
from tests.support.forging import (
    GOLDEN,
    NAMES,
    canonical,
    content_of,
    digest_of,
    opened,
    refused,
    refused_or_same,
    same,
)

# ------------------------------------------------------------------------------------------------ what is promised


def test_there_are_golden_files_of_every_shape() -> None:
    shapes = ["lookup-levels", "semiring-composite", "union-laplace"]
    assert sorted([*shapes, *(f"v2-{name}" for name in [*shapes, "open-levels"])]) == NAMES
    assert [read_sketch(content_of(name)).header.version for name in NAMES] == [1, 1, 1, 2, 2, 2, 2]
    assert [name for name in NAMES if read_sketch(content_of(name)).header.open] == ["v2-open-levels"]


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_sketch_is_read_as_it_was_written(name: str) -> None:
    expected = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    sketch = read_sketch(GOLDEN / f"{name}.saibot")
    assert sketch.header.model_dump(mode="json") == expected["header"]
    found = [{"keys": [part.tolist() for part in t.keys], "values": t.values.tolist()} for t in sketch.levels]
    assert found == expected["levels"]
    sketch.check()


@pytest.mark.parametrize("name", NAMES)
def test_a_sketch_survives_the_round_trip_byte_by_byte(name: str) -> None:
    sketch = read_sketch(content_of(name))
    first = write_sketch(sketch)
    again = read_sketch(first)
    assert write_sketch(again) == first
    assert same(again, sketch) and again.digest == sketch.digest


@pytest.mark.parametrize("name", NAMES)
def test_path_and_bytes_are_read_alike(name: str) -> None:
    assert same(read_sketch(GOLDEN / f"{name}.saibot"), read_sketch(content_of(name)))


@pytest.mark.parametrize("name", NAMES)
def test_the_digest_is_sha256_of_canonical_header_and_columns(name: str) -> None:
    document, batches = opened(content_of(name))
    assert document["digest"] == digest_of(document, batches) == read_sketch(content_of(name)).digest
    assert canonical(document) == read_sketch(content_of(name)).header.canonical()


@pytest.mark.parametrize("name", NAMES)
def test_any_arrow_tool_finds_the_columns_that_the_format_names(name: str) -> None:
    with pa.ipc.open_file(pa.py_buffer(content_of(name))) as reader:
        schema, batches = reader.schema, reader.num_record_batches
    names = {
        "lookup-levels": ["level", "key:day", "c", "s:delay", "s:origin=EWR", "s:origin=JFK"],
        "semiring-composite": [
            *("level", "key:port", "key:weekday", "c", "s:delay", "s:distance"),
            *("q:delay*delay", "q:delay*distance", "q:distance*distance"),
        ],
        "union-laplace": ["level"],
    }[shape := name.removeprefix("v2-").replace("open", "lookup")]
    assert schema.names == names
    assert set(schema.metadata) == {b"saibot"}
    kinds = [pa.int8()] + [pa.string() if n.startswith("key:") else pa.float64() for n in names[1:]]
    assert schema.types == kinds
    assert batches == {"lookup-levels": 2, "semiring-composite": 1, "union-laplace": 0}[shape]


def test_rows_follow_the_domain_and_the_catch_all_is_last() -> None:
    day, month = read_sketch(content_of("lookup-levels")).levels
    assert day.keys[0].tolist() == ["2013-01-30", "2013-01-31", "2013-02-01", "2013-02-02", "2013-02-03", "__other__"]
    assert month.keys[0].tolist() == ["2013-01", "2013-02", "__other__"]
    (both,) = read_sketch(content_of("semiring-composite")).levels
    assert [*zip(*both.keys, strict=True)][:4] == [("EWR", "1"), ("EWR", "2"), ("EWR", "3"), ("JFK", "1")]
    assert [part[-1] for part in both.keys] == ["__other__", "__other__"] and len(both) == 3 * 3 + 1


def test_a_sketch_cannot_be_written_to() -> None:
    level = read_sketch(content_of("lookup-levels")).levels[0]
    with pytest.raises(ValueError, match="read-only"):
        level.values[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        level.keys[0][0] = "x"


@pytest.mark.parametrize("name", NAMES)
def test_a_sketch_that_is_not_sealed_is_not_sound(name: str) -> None:
    sketch = read_sketch(content_of(name))
    loose = Sketch(sketch.header.model_copy(update={"digest": None}), sketch.levels)
    with pytest.raises(InvalidSketch, match="digest"):
        loose.check()
    loose.sealed().check()
    assert loose.sealed().digest == sketch.digest


def test_sigma_tells_the_noise_of_every_number_released() -> None:
    sketch = read_sketch(content_of("lookup-levels"))
    blocks = {(b["scope"], b["level"], b["order"]): b["sigma"] for b in sketch.header.plan["blocks"]}
    assert sketch.sigma("key", 1, level=1) == blocks["key", 1, 1]
    assert sketch.sigma("global", 2) == blocks["global", 0, 2]
    assert sketch.sigma("global", 2, multiplicity=2) == pytest.approx(blocks["global", 0, 2] / 2**0.5)
    assert sketch.sigma("key", 2) is None and sketch.whole(0) is None


# ------------------------------------------------------------------------------------------------ damage


@pytest.mark.fault
@pytest.mark.parametrize("name", NAMES)
def test_a_cut_off_sketch_is_refused_wherever_it_is_cut(name: str, full: bool) -> None:
    content = content_of(name)
    lengths = range(len(content)) if full else sorted({*range(0, 12), *np.linspace(12, len(content) - 1, 50).astype(int)})
    for length in lengths:
        refused(content[:length])


@pytest.mark.fault
@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_byte_is_refused_or_changes_nothing(name: str, full: bool) -> None:
    content, original = content_of(name), read_sketch(content_of(name))
    rng = np.random.default_rng(len(content))
    places = np.arange(len(content)) if full else rng.choice(len(content), 300, replace=False)
    caught = 0
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= int(rng.integers(1, 256))
        caught += refused_or_same(bytes(damaged), original)
    assert caught > len(places) / 3  # the rest is padding


@pytest.mark.fault
def test_every_bit_of_every_released_number_is_under_the_digest() -> None:
    content = content_of("lookup-levels")
    for level in read_sketch(content).levels:
        for value in level.values.ravel():
            place = content.find(value.tobytes())
            assert place > 0
            for byte in range(8):
                damaged = bytearray(content)
                damaged[place + byte] ^= 1
                refused(bytes(damaged))


@pytest.mark.fault
@pytest.mark.parametrize("name", NAMES)
def test_bytes_appended_prepended_or_made_up_are_no_sketch(name: str) -> None:
    content, original = content_of(name), read_sketch(content_of(name))
    refused(b"")
    refused(b"ARROW1\0\0" + b"\xff" * 200)
    refused(np.random.default_rng(0).bytes(4000))
    refused(content + b"x")
    refused_or_same(b"PK\x03\x04" + content, original)
    refused_or_same(content + content, original)


def test_a_folder_or_a_missing_file_is_refused_as_a_sketch(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing.saibot"):
        with pytest.raises(InvalidSketch):
            read_sketch(path)


def test_a_file_beyond_the_size_limit_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketch_file, "MAX_FILE_BYTES", 1000)
    assert "larger" in refused(content_of("lookup-levels"))
    with pytest.raises(InvalidSketch, match="larger"):
        read_sketch(GOLDEN / "lookup-levels.saibot")
    monkeypatch.setattr(sketch_file, "MAX_FILE_BYTES", 1 << 31)
    monkeypatch.setattr(allowed, "MAX_HEADER_BYTES", 1000)
    assert "header is too large" in refused(content_of("lookup-levels"))
    monkeypatch.setattr(allowed, "MAX_HEADER_BYTES", 1 << 24)
    monkeypatch.setattr(sketch_file, "MAX_COLUMNS", 3)
    assert "is not a sketch file" in refused(content_of("lookup-levels"))
