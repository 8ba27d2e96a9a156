"""A sketch whose header was changed is refused, also with the digest that belongs to the changed one."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow as pa
import pytest

from saibot.sketch import read_sketch
from tests.support.forging import (
    NAMES,
    Document,
    content_of,
    drop_at,
    forge,
    opened,
    refused,
    refused_or_same,
    set_at,
    written,
)

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
