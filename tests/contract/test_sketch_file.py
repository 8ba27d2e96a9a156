"""The sketch file is a contract: what a version means is fixed, and nothing but a sound file of one is read.

`forge` writes files as an attacker would, digest recomputed where the attacker can. The digest itself is spelled out here a
second time, from DESIGN section 13: were the package's own to change, every sketch in the world would stop being readable.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from saibot.errors import InvalidSketch
from saibot.privacy import Budget
from saibot.sketch import Sketch, read_sketch, write_sketch
from saibot.sketch import file as sketch_file

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.saibot"))
KEYED = [name for name in NAMES if "union" not in name]
Document = dict[str, Any]


def content_of(name: str) -> bytes:
    return (GOLDEN / f"{name}.saibot").read_bytes()


def same(one: Sketch, other: Sketch) -> bool:
    return one.header == other.header and all(
        all(np.array_equal(a, b) for a, b in zip(x.keys, y.keys, strict=True)) and np.array_equal(x.values, y.values)
        for x, y in zip(one.levels, other.levels, strict=True)
    )


def refused(content: bytes) -> str:
    """The message of the refusal; anything but InvalidSketch, with one line for people, fails the test."""
    with pytest.raises(InvalidSketch) as caught:
        read_sketch(content)
    message = str(caught.value)
    assert message and "\n" not in message
    return message


def refused_or_same(content: bytes, original: Sketch) -> bool:
    """True if refused. A file that is read after all must mean what the original means."""
    try:
        found = read_sketch(content)
    except InvalidSketch:
        return True
    assert same(found, original), "a changed file was read as another sketch"
    return False


# ------------------------------------------------------------------------------------------------ a forger's tools


def canonical(document: Document) -> bytes:
    less = {name: value for name, value in document.items() if name not in ("digest", "signature")}
    return json.dumps(less, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest_of(document: Document, batches: list[pa.RecordBatch]) -> str:
    sha = hashlib.sha256(canonical(document))
    for number, batch in enumerate(batches):
        sha.update(f"\x1elevel {number} {batch.num_rows}\x1e".encode())
        for field in batch.schema:
            if pa.types.is_string(field.type):
                keys = [(key or "").encode() for key in batch.column(field.name).to_pylist()]
                sha.update(np.array([len(key) for key in keys], "<u4").tobytes() + b"".join(keys))
        for field in batch.schema:
            if pa.types.is_floating(field.type):
                sha.update(batch.column(field.name).to_numpy(zero_copy_only=False).astype("<f8").tobytes())
    return sha.hexdigest()


def opened(content: bytes) -> tuple[Document, list[pa.RecordBatch]]:
    with pa.ipc.open_file(pa.py_buffer(content)) as reader:
        document = json.loads(reader.schema.metadata[b"saibot"])
        return document, [reader.get_batch(i) for i in range(reader.num_record_batches)]


def written(
    document: Document | bytes,
    batches: list[pa.RecordBatch],
    *,
    fields: pa.Schema | None = None,
    more_metadata: dict[str, str] | None = None,
    options: pa.ipc.IpcWriteOptions | None = None,
) -> bytes:
    text = document if isinstance(document, bytes) else json.dumps(document, sort_keys=True).encode()
    schema = (fields or batches[0].schema).with_metadata({"saibot": text} | (more_metadata or {}))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(pa.record_batch(batch.columns, schema=schema))
    return bytes(sink.getvalue())


def forge(content: bytes, change: Callable[[Document], object], *, reseal: bool = True) -> bytes:
    """The file with another header, and with the digest that belongs to it."""
    document, batches = opened(content)
    schema = pa.ipc.open_file(pa.py_buffer(content)).schema
    document = copy.deepcopy(document)
    change(document)
    if reseal:
        document["digest"] = digest_of(document, batches)
    return written(document, batches, fields=schema)


def forge_columns(content: bytes, change: Callable[[list[pa.RecordBatch]], list[pa.RecordBatch]]) -> bytes:
    """The file with other columns or rows, and with the digest that belongs to them."""
    document, batches = opened(content)
    batches = change(batches)
    document["digest"] = digest_of(document, batches)
    return written(document, batches)


def set_at(*path: str | int, to: Any) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return change


def drop_at(*path: str | int) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]

    return change


# ------------------------------------------------------------------------------------------------ what is promised


def test_there_are_golden_files_of_every_shape() -> None:
    shapes = ["lookup-levels", "semiring-composite", "union-laplace"]
    assert [*shapes, *(f"v2-{name}" for name in shapes)] == NAMES
    assert [read_sketch(content_of(name)).header.version for name in NAMES] == [1, 1, 1, 2, 2, 2]


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
    }[name.removeprefix("v2-")]
    assert schema.names == names
    assert set(schema.metadata) == {b"saibot"}
    kinds = [pa.int8()] + [pa.string() if n.startswith("key:") else pa.float64() for n in names[1:]]
    assert schema.types == kinds
    assert batches == {"lookup-levels": 2, "semiring-composite": 1, "union-laplace": 0}[name.removeprefix("v2-")]


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
    monkeypatch.setattr(sketch_file, "MAX_HEADER_BYTES", 1000)
    assert "header is too large" in refused(content_of("lookup-levels"))
    monkeypatch.setattr(sketch_file, "MAX_HEADER_BYTES", 1 << 24)
    monkeypatch.setattr(sketch_file, "MAX_COLUMNS", 3)
    assert "too many columns" in refused(content_of("lookup-levels"))


# ------------------------------------------------------------------------------------------------ forged headers

ANY_FIELD = [
    ("epsilon", set_at("budget", "epsilon", to="0.5")),
    ("delta", set_at("budget", "delta", to="1e-9")),
    ("sigma", set_at("plan", "blocks", 0, "sigma", to=1.0)),
    ("rows", set_at("invariants", to={"rows": 41})),
    ("title", set_at("dataset", "title", to="another")),
    ("bounds", set_at("features", 0, "upper", to=121.0)),
    ("domain", set_at("key", "parts", 0, "domain", to="other")),
    ("simulation", set_at("simulation", to=False)),
    ("edition", set_at("edition", to=2)),
    ("created", set_at("created", to="2020-01-01")),
]


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in ANY_FIELD])
def test_a_changed_header_under_the_old_digest_is_refused(change: Callable[[Document], None]) -> None:
    refused(forge(content_of("lookup-levels"), change, reseal=False))


def test_the_forger_can_forge() -> None:
    """What the tests below refuse is refused for what was changed, not because the forgery is clumsy."""
    for name in NAMES:
        assert not refused_or_same(forge(content_of(name), lambda document: None), read_sketch(content_of(name)))
    renamed = read_sketch(forge(content_of("lookup-levels"), set_at("dataset", "title", to="another")))
    assert renamed.header.dataset.title == "another"


LIES = {
    "less noise": set_at("plan", "blocks", 0, "sigma", to=1.0),
    "a little less noise": lambda d: d["plan"]["blocks"][1].update(sigma=d["plan"]["blocks"][1]["sigma"] * 0.999),
    "more noise": lambda d: d["plan"]["blocks"][1].update(sigma=d["plan"]["blocks"][1]["sigma"] * 1.001),
    "noise as text": set_at("plan", "blocks", 0, "sigma", to="19"),
    "no noise": set_at("plan", "blocks", 0, "sigma", to=0.0),
    "another off-diagonal noise": lambda d: d["plan"]["blocks"][-1].update(sigma_offdiagonal=1.0),
    "another sensitivity": set_at("plan", "blocks", 0, "sensitivity", to=0.1),
    "a smaller budget": set_at("budget", "epsilon", to="0.5"),
    "a smaller delta": set_at("budget", "delta", to="1e-9"),
    "a budget of nothing": set_at("budget", "epsilon", to="0"),
    "a budget that is no number": set_at("budget", "epsilon", to="one"),
    "a budget that is not finite": set_at("budget", "epsilon", to="NaN"),
    "a budget as a number": set_at("budget", "epsilon", to=1),
    "a budget without delta": drop_at("budget", "delta"),
    "another plan budget": set_at("plan", "request", "budget", "epsilon", to="0.5"),
    "another mu": set_at("plan", "mu", to=0.1),
    "no mu": set_at("plan", "mu", to=None),
    "laplace": set_at("plan", "noise", to="laplace"),
    "another calibration": set_at("plan", "calibration", to="classical"),
    "another count of touched numbers": set_at("plan", "touched", to=1),
    "another bound": set_at("bound_squared", to="1"),
    "a bound that is no number": set_at("bound_squared", to="wide"),
    "a bound that is not finite": set_at("bound_squared", to="sNaN"),
    "a plan bound that is not finite": set_at("plan", "request", "bound_squared", to="Infinity"),
    "one feature less": drop_at("features", 2),
    "no feature": set_at("features", to=[]),
    "two features of one name": lambda d: d["features"][0].update(name=d["features"][1]["name"]),
    "bounds upside down": lambda d: d["features"][0].update(lower=120.0, upper=-30.0),
    "bounds whose distance is no number": lambda d: d["features"][0].update(lower=-1e308, upper=1e308),
    "bounds whose middle is no number": lambda d: d["features"][0].update(lower=1.7e308, upper=1.75e308),
    "bounds next to each other": lambda d: d["features"][0].update(lower=0.0, upper=5e-324),
    "bounds too far apart to square": lambda d: d["features"][0].update(lower=0.0, upper=1e160),
    "a missing field": drop_at("neighbours"),
    "a missing digest": drop_at("digest"),
    "a missing plan": drop_at("plan"),
    "an empty plan": set_at("plan", to={}),
    "a plan without request": drop_at("plan", "request"),
    "a plan without blocks": set_at("plan", "blocks", to=[]),
    "an unknown field": set_at("nonsense", to=1),
    "an unknown field in a part": set_at("dataset", "nonsense", to=1),
    "an unknown field in the plan": set_at("plan", "nonsense", to=1),
    "an unknown field in a block": set_at("plan", "blocks", 0, "nonsense", to=1),
    "an unknown field in the request": set_at("plan", "request", "nonsense", to=1),
    "an unknown mechanism": set_at("plan", "request", "mechanism", to="none"),
    "an unknown layout": set_at("plan", "request", "layout", to="none"),
    "a layout without key": set_at("plan", "request", "layout", to="union"),
    "features as text": set_at("plan", "request", "features", to="3"),
    "very many features": set_at("plan", "request", "features", to=10**9),
    "many levels": set_at("plan", "request", "levels", to=3),
    "a negative order": set_at("plan", "request", "order", to=-1),
    "a request of nothing": set_at("plan", "request", to=None),
    "other neighbours": set_at("neighbours", to="add-remove"),
    "unknown neighbours": set_at("neighbours", to="nobody"),
    "fewer rows per individual in the plan": set_at("assumptions", "rows_per_individual", to=3),
    "a row count that is not public": set_at("invariants", to={}),
    "a row count that is another": set_at("invariants", to={"rows": 41}),
    "a row count below zero": set_at("invariants", to={"rows": -1}),
    "a row count that no database holds": lambda d: (
        d["invariants"].update(rows=2**63),
        d["plan"]["request"].update(rows=2**63),
    ),
    "another invariant": set_at("invariants", to={"rows": 40, "columns": 3}),
    "real noise that says simulated": set_at("assumptions", "noise", to="exact-integer"),
    "the local model": set_at("model", to="local"),
    "no key": set_at("key", to=None),
    "no key levels": set_at("key", "levels", to=[]),
    "a key of another size": set_at("key", "parts", 0, "size", to=6),
    "a key without parts": set_at("key", "parts", to=[]),
    "another key name": set_at("key", "parts", 0, "name", to="night"),
    "a digest that is none": set_at("key", "parts", 0, "digest", to="abc"),
    "no global block": set_at("global_blocks", to=[]),
    "a global block too many": lambda d: d["global_blocks"].append({"order": 3, "values": [1.0]}),
    "a global block twice": lambda d: d["global_blocks"].append(d["global_blocks"][0]),
    "a short global block": lambda d: d["global_blocks"][0].update(values=[1.0]),
    "text in a global block": lambda d: d["global_blocks"][0].update(values=["1.0"] * 3),
    "a version to come": set_at("version", to=3),
    "a later version without its fields": set_at("version", to=2),
    "a field of a later version": set_at("open", to=False),
    "a version as text": set_at("version", to="1"),
    "another format": set_at("format", to="parquet"),
    "a date that is none": set_at("created", to="yesterday"),
    "a day that does not exist": set_at("created", to="2025-02-31"),
    "an edition that no database holds": set_at("edition", to=2**63),
    "a name with a path in it": set_at("dataset", "name", to="../../etc/passwd"),
    "a very long title": set_at("dataset", "title", to="x" * 3000),
    "a grid of no bits": set_at("grid_bits", to=0),
    "a truth that is a number": set_at("simulation", to=1),
}


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in LIES.items()])
def test_a_header_that_lies_is_refused_even_with_the_digest_that_belongs_to_it(change: Callable[[Document], None]) -> None:
    reseal = change is not LIES["a missing digest"]
    refused(forge(content_of("lookup-levels"), change, reseal=reseal))


def test_a_version_to_come_is_named_in_the_refusal() -> None:
    message = refused(forge(content_of("lookup-levels"), set_at("version", to=3)))
    assert "version 3" in message and "reads 1 to 2" in message and "Upgrade" in message


@pytest.mark.parametrize("field", ["types", "open", "source", "account", "spent", "signature"])
def test_version_1_has_no_field_of_version_2(field: str) -> None:
    added = opened(content_of("v2-lookup-levels"))[0][field]
    message = refused(forge(content_of("lookup-levels"), set_at(field, to=added)))
    assert f"version 1 has no field '{field}'" in message


LIES_OF_2 = {
    "an account without a total": set_at("spent", to=None),
    "a total without an account": set_at("account", to=None),
    "an account by its name": set_at("account", to="golden-flights"),
    "a total below this sketch's own price": set_at("spent", "epsilon", to="0.9"),
    "a total at a smaller delta": set_at("spent", "delta", to="0"),
    "a total of nothing": set_at("spent", "epsilon", to="0"),
    "a total that is no number": set_at("spent", "epsilon", to="much"),
    "a total as a number": set_at("spent", "epsilon", to=1.5),
    "a total without delta": drop_at("spent", "delta"),
    "an unknown type": set_at("types", "features", "delay", to="blob"),
    "types of something else": set_at("types", "columns", to={}),
    "a signature that is a text": set_at("signature", to="mine"),
    "a signature that goes on for ever": set_at(
        "signature", to={"scheme": "x", "signer": "y", "value": "z" * 3000}
    ),
    "open, with noise and a budget": set_at("open", to=True),
    "open, with a source, and still with noise": lambda d: d.update(open=True, source="https://example.org/t.csv"),
    "a source, and not open": set_at("source", to="https://example.org/t.csv"),
    "no noise, and not open": set_at("assumptions", "noise", to="none"),
    "a missing field of its version": drop_at("types"),
    "an unknown field": set_at("nonsense", to=1),
}  # fmt: skip


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in LIES_OF_2.items()])
def test_a_header_of_version_2_that_lies_is_refused(change: Callable[[Document], None]) -> None:
    refused(forge(content_of("v2-lookup-levels"), change))


def test_an_open_sketch_is_exact_has_a_source_and_no_price_and_is_not_read_yet() -> None:
    def opening(document: Document) -> None:
        free = {"budget": {}, "plan": {}, "account": None, "spent": None, "simulation": False}
        document.update(free, open=True, source="https://example.org/flights.csv")
        document["assumptions"]["noise"] = "none"

    def opening_without(**less: Any) -> Callable[[Document], None]:
        return lambda document: (opening(document), document.update(less))  # type: ignore[return-value]

    content = content_of("v2-lookup-levels")
    assert "is open" in refused(forge(content, opening))
    assert "names the public source" in refused(forge(content, opening_without(source=None)))
    assert "no budget" in refused(forge(content, opening_without(budget={"epsilon": "1", "delta": "0"})))
    assert "no noise" in refused(forge(content, opening_without(simulation=True)))


def test_no_release_is_open_by_itself() -> None:
    assert not any(read_sketch(content_of(name)).header.open for name in NAMES)


def test_sketches_of_one_account_name_it_alike_and_say_what_all_of_them_cost() -> None:
    first, second, other = (read_sketch(content_of(name)).header for name in NAMES[3:])
    assert first.account == second.account != other.account
    assert (first.total(), other.total()) == (Budget("1", "1e-6"), Budget("1"))
    total = second.total()
    assert total is not None and 1.4 < total.epsilon < 1.5 and total.delta == Budget("1", "1e-6").delta
    named = [part for header in (first, second) for part in (header.dataset.name, header.key.name if header.key else "")]
    assert named == ["golden-flights", "day", "golden-flights", "port_weekday"]  # one table, by two keys


def test_types_are_told_by_the_names_of_the_card() -> None:
    types = read_sketch(content_of("v2-lookup-levels")).header.types
    assert (types.features, types.keys) == ({"delay": "numeric", "origin": "category"}, {"day": "date"})
    types = read_sketch(content_of("v2-semiring-composite")).header.types
    assert (types.features["distance"], types.keys) == ("numeric", {"port": "text", "weekday": "text"})
    assert "date" not in types.keys  # the column's own name


def test_a_signature_is_kept_and_is_of_the_digest_which_it_does_not_change() -> None:
    content = content_of("v2-union-laplace")
    signed, bare = read_sketch(content), read_sketch(forge(content, set_at("signature", to=None)))
    assert signed.header.signature is not None and bare.header.signature is None
    assert signed.digest == bare.digest == opened(content)[0]["digest"]
    assert read_sketch(write_sketch(signed)).header.signature == signed.header.signature


def test_a_refusal_names_the_place_in_the_header() -> None:
    assert "features.0.upper" in refused(forge(content_of("lookup-levels"), set_at("features", 0, "upper", to="x")))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_header_number_that_is_not_finite_is_refused(number: str) -> None:
    document, batches = opened(content_of("lookup-levels"))
    for place in ('"upper":120.0', f'"sigma":{json.dumps(document["plan"]["blocks"][0]["sigma"])}'):
        text = json.dumps(document, separators=(",", ":"))
        assert place in text
        lie = text.replace(place, place.split(":")[0] + ":" + number, 1).encode()
        refused(written(lie, batches))


@pytest.mark.parametrize("text", [b"", b"null", b"[]", b"{}", b"{", b'"saibot"', b"\xff\xfe", b"[" * 100_000, b"1" * 5000])
def test_a_header_that_is_no_json_object_is_refused(text: bytes) -> None:
    _, batches = opened(content_of("lookup-levels"))
    refused(written(text, batches))


def test_a_second_answer_for_the_same_field_is_refused_or_ignored() -> None:
    """JSON readers differ in which of two equal keys they believe; ours may not be talked into a smaller epsilon."""
    document, batches = opened(content_of("lookup-levels"))
    text = json.dumps(document)
    doubled = text.replace('"simulation": true', '"simulation": false, "simulation": true').encode()
    assert doubled != text.encode()
    refused_or_same(written(doubled, batches), read_sketch(content_of("lookup-levels")))
    swapped = text.replace('"simulation": true', '"simulation": true, "simulation": false').encode()
    refused(written(swapped, batches))


def test_metadata_beside_the_header_is_refused() -> None:
    document, batches = opened(content_of("lookup-levels"))
    refused(written(document, batches, more_metadata={"pandas": "{}"}))
    refused(written(document, batches, more_metadata={"note": "SECRET-4711"}))


def test_an_arrow_file_that_is_no_sketch_is_refused() -> None:
    table = pa.table({"a": [1, 2, 3]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    assert "not a sketch" in refused(bytes(sink.getvalue()))


# ------------------------------------------------------------------------------------------------ forged columns


def changed_column(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    place = batch.schema.names.index(name)
    return batch.set_column(place, pa.field(name, column.type), column)


def nulls(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    values = batches[0].column("c").to_pylist()
    return [changed_column(batches[0], "c", pa.array([None, *values[1:]], pa.float64())), *batches[1:]]


def null_keys(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    place = batches[0].schema.names[1]
    keys = batches[0].column(place).to_pylist()
    return [changed_column(batches[0], place, pa.array([None, *keys[1:]], pa.string())), *batches[1:]]


def not_finite(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    values = batches[0].column("c").to_pylist()
    return [changed_column(batches[0], "c", pa.array([float("nan"), *values[1:]], pa.float64())), *batches[1:]]


def extra_column(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return [b.append_column(pa.field("s:ssn", pa.float64()), pa.array(np.zeros(b.num_rows))) for b in batches]


def dictionary(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    name = batches[0].schema.names[1]
    words = pa.array(sorted({word for b in batches for word in b.column(name).to_pylist()}))
    return [
        changed_column(b, name, pa.DictionaryArray.from_arrays([words.index(w).as_py() for w in b.column(name)], words))
        for b in batches
    ]


def large_text(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    name = batches[0].schema.names[1]
    return [changed_column(b, name, b.column(name).cast(pa.large_string())) for b in batches]


def single_precision(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return [changed_column(b, "c", b.column("c").cast(pa.float32(), safe=False)) for b in batches]


def other_level(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return [changed_column(b, "level", pa.array(np.full(b.num_rows, 5, np.int8))) for b in batches]


COLUMN_LIES: dict[str, Callable[[list[pa.RecordBatch]], list[pa.RecordBatch]]] = {
    "empty cells": nulls,
    "empty key cells": null_keys,
    "numbers that are not finite": not_finite,
    "an extra column": extra_column,
    "a column less": lambda bs: [b.select(b.schema.names[:-1]) for b in bs],
    "columns in another order": lambda bs: [b.select([*b.schema.names[:-2], *b.schema.names[:-3:-1]]) for b in bs],
    "a renamed column": lambda bs: [b.rename_columns([*b.schema.names[:-1], "s:other"]) for b in bs],
    "dictionary-encoded keys": dictionary,
    "large text": large_text,
    "single precision": single_precision,
    "a key row less": lambda bs: [bs[0].slice(1), *bs[1:]],
    "no catch-all": lambda bs: [bs[0].slice(0, bs[0].num_rows - 1), *bs[1:]],
    "a key row twice": lambda bs: [pa.concat_batches([bs[0], bs[0].slice(0, 1)]), *bs[1:]],
    "no rows": lambda bs: [b.slice(0, 0) for b in bs],
    "a level too many": lambda bs: [*bs, bs[-1]],
    "levels under another number": other_level,
}


@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize("change", [pytest.param(change, id=lie) for lie, change in COLUMN_LIES.items()])
def test_columns_that_do_not_fit_their_header_are_refused_even_with_their_digest(
    name: str, change: Callable[[list[pa.RecordBatch]], list[pa.RecordBatch]]
) -> None:
    refused(forge_columns(content_of(name), change))


def test_key_levels_in_another_order_or_left_out_are_refused() -> None:
    content = content_of("lookup-levels")
    refused(forge_columns(content, lambda batches: batches[::-1]))
    refused(forge_columns(content, lambda batches: batches[:1]))


def test_a_coarser_level_with_rows_left_out_is_refused() -> None:
    """The plan carries the sizes of all key levels, so a reader can tell."""
    refused(forge_columns(content_of("lookup-levels"), lambda batches: [batches[0], batches[1].slice(1)]))


def test_permuted_keys_under_the_old_digest_are_refused() -> None:
    """With a new digest they cannot be told from another domain: who knows the domain compares its own digest."""
    document, (batch, *rest) = opened(content_of("lookup-levels"))
    order = [1, 0, *range(2, batch.num_rows)]
    shuffled = changed_column(batch, "key:day", batch.column("key:day").take(pa.array(order)))
    refused(written(document, [shuffled, *rest]))


def test_rows_for_a_sketch_without_key_are_refused() -> None:
    document, _ = opened(content_of("union-laplace"))
    batch = pa.record_batch({"level": pa.array([0, 0], pa.int8())})
    document["digest"] = digest_of(document, [batch])
    refused(written(document, [batch]))


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_compressed_file_is_refused(codec: str) -> None:
    """It could unfold to more than fits into memory, and a sketch is meant to be mapped into it."""
    document, batches = opened(content_of("semiring-composite"))
    big = pa.concat_batches(batches * 200)
    options = pa.ipc.IpcWriteOptions(compression=codec)
    assert "compressed" in refused(written(document, [big], options=options))
    refused(written(document, batches, options=options))


def test_a_text_column_with_offsets_out_of_range_is_refused() -> None:
    """Full validation, because a plain read believes the offsets."""
    content = content_of("lookup-levels")
    offsets = np.cumsum([0] + [10] * 5 + [9]).astype("<i4").tobytes()
    place = content.find(offsets)
    assert place > 0
    for wrong in (b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff"):
        damaged = bytearray(content)
        damaged[place + 12 : place + 16] = wrong
        refused(bytes(damaged))
