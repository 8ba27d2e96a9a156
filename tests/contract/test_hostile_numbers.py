"""Sound files with hostile numbers, sizes and encodings: refused, or as harmless as any other sketch."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from saibot.domains import KeyDomain
from saibot.domains.file import card_of, read_domain, write_domain
from saibot.errors import InvalidDomain, InvalidInput, InvalidSketch
from saibot.privacy import Budget, Neighbours
from saibot.privacy.mechanisms import PlanRequest, make_plan
from saibot.safe_arrow import read_arrow
from saibot.search.shard import NUMBERS, TEXT, ShardRows, open_shard, write_shard
from saibot.search.shared_factors import read_factors
from saibot.sketch import read_sketch
from tests.campaigns.hostile_numbers import try_batch
from tests.support.forging import Document, content_of, digest_of, forge, opened, refused, set_at, written
from tests.support.hostile import bomb, sharing, taken_apart, unfolding

MIB = 1 << 20


@pytest.mark.filterwarnings("ignore")
def test_no_sketch_with_hostile_numbers_breaks_a_profile_or_a_search() -> None:
    outcomes = try_batch(0, 160)
    assert outcomes["accepted"] > 40 and outcomes["refused"] > 40 and outcomes["searches"] == 3


def test_finite_counts_whose_sum_is_not_are_refused() -> None:
    def change(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        place = batches[0].schema.names.index("c")
        huge = pa.array(np.full(batches[0].num_rows, 1e308))
        return [batches[0].set_column(place, batches[0].schema.field("c"), huge), *batches[1:]]

    document, batches = opened(content_of("lookup-levels"))
    batches = change(batches)
    document["digest"] = digest_of(document, batches)
    assert "no rows within its bounds can give" in refused(written(document, batches))


def test_union_moments_that_no_rows_can_have_are_refused() -> None:
    values = json.loads(json.dumps(opened(content_of("union-laplace"))[0]["global_blocks"][1]["values"]))
    content = forge(content_of("union-laplace"), set_at("global_blocks", 1, "values", to=[1e300] * len(values)))
    assert "no rows within its bounds can give" in refused(content)


def test_batches_packed_in_the_way_of_an_old_arrow_are_refused_before_they_unfold() -> None:
    document, batches = opened(content_of("semiring-composite"))
    content = bomb(document, batches[0], rows=1_000_000)
    before = pa.total_allocated_bytes()
    peak = _peak_of(lambda: refused(content))
    assert peak < 4 * len(content) and pa.total_allocated_bytes() - before < 4 * len(content) < 60 * MIB
    with pytest.raises(InvalidSketch, match="encoded in a way"):
        read_sketch(content)


def test_a_key_domain_file_is_refused_before_it_unfolds() -> None:
    domain = KeyDomain.of("numbers", [f"{n:08d}" for n in range(50_000)])
    with pa.ipc.open_file(pa.py_buffer(write_domain(domain, card_of(domain)))) as reader:
        schema, batch = reader.schema, reader.get_batch(0)
    assert read_domain(write_domain(domain, card_of(domain)), name="x")[1] == domain
    with pytest.raises(InvalidDomain):
        read_domain(unfolding(schema, [batch]), name="x")


def test_factors_are_refused_before_they_unfold() -> None:
    import hashlib

    schema = pa.schema({"everyone": pa.list_(pa.float64(), 1)}, metadata={"saibot": "{}"})
    column = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(100_000)), 1)
    content = unfolding(schema, [pa.record_batch([column], schema=schema)])
    with pytest.raises(InvalidInput, match="damaged"):
        read_factors(content, hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize("features", [100, 1000])
def test_a_tiny_header_with_a_basis_beyond_all_memory_is_refused_at_once(features: int) -> None:
    def change(document: Document) -> None:
        request = PlanRequest(
            mechanism="fpm",
            layout="join",
            features=features,
            order=6,
            bound_squared=Decimal(1),
            budget=Budget("1"),
            neighbours=Neighbours.REPLACE_ONE,
            row_count_public=True,
            rows=40,
        )
        first = document["features"][0]
        document["features"] = [first | {"name": f"f{i}"} for i in range(features)]
        document |= {"plan": make_plan(request).to_json(), "bound_squared": "1", "budget": request.budget.to_json()}

    content = forge(content_of("semiring-composite"), change)
    assert len(content) < 320_000
    assert _peak_of(lambda: refused(content)) < 30 * MIB


HEADERS: dict[str, Callable[[Document], None]] = {
    "an order of a billion": lambda document: document["plan"]["request"].update(order=10**9),
    "a million levels": lambda document: document["plan"]["request"].update(levels=10**6),
    "a unit of 2,000 letters": set_at("features", 0, "unit", to="x" * 2000),
    "a million empty objects": set_at("plan", "blocks", to=[{}] * 1_000_000),
    "a million small texts": set_at("preparation", "steps", to=["ab"] * 1_000_000),
    "twenty thousand features": lambda document: document.update(features=document["features"] * 10_000),
}


@pytest.mark.parametrize("change", [pytest.param(change, id=lie) for lie, change in HEADERS.items()])
def test_a_header_that_asks_for_more_than_sketches_have_is_refused_without_the_work(
    change: Callable[[Document], None],
) -> None:
    content = forge(content_of("semiring-composite"), change)
    assert _peak_of(lambda: refused(content)) < 60 * MIB


def test_shards_that_lie_about_where_their_values_are_end_in_a_sentence(tmp_path: Path) -> None:
    """Each would be read beyond the end of the file, or of memory, by a reader that believes them."""
    text = {name: np.array(["a", "b", "c"], dtype=object) for name in TEXT}
    good = tmp_path / "good.arrow"
    write_shard(good, ShardRows(text, {name: np.ones(3) for name in NUMBERS}, np.ones((3, 50), np.float32)))
    assert len(open_shard(good)) == 3
    refusals = 0
    for number, content in enumerate(taken_apart(good.read_bytes())):
        bad = tmp_path / f"{number}.arrow"
        bad.write_bytes(content)
        try:
            rows = open_shard(bad)
            float(np.nansum(rows.values.astype(np.float64)))
        except InvalidInput:
            refusals += 1
    assert refusals > 100


def _peak_of(work: Callable[[], object]) -> int:
    """Bytes that Python had allocated at most while it worked."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_columns_that_share_their_bytes_are_refused_before_they_are_copied() -> None:
    """Every column may point at the same bytes of a small file: copies of them would be larger than it by their number."""
    columns = [pa.array(np.full(1000, float(i))) for i in range(200)]
    content = sharing(pa.record_batch(columns, names=[f"x{i}" for i in range(200)]))
    assert len(content) < 100_000
    with pytest.raises(pa.ArrowInvalid, match="larger than its file"):
        read_arrow(pa.py_buffer(content), columns=1000)


@pytest.mark.parametrize("padding", [" " * 100_000, "_" * 100_000, "0" * 100_000])
@pytest.mark.parametrize("field", ["budget", "spent", "bound_squared"])
def test_a_price_is_no_longer_than_numbers_are_written(field: str, padding: str) -> None:
    """A Decimal reads them all as 1, and the text of it is in every list of the catalogue."""
    document = opened(content_of("v2-lookup-levels"))[0]
    place = ("bound_squared",) if field == "bound_squared" else (field, "epsilon")
    text: object = document[field]
    if isinstance(text, dict):
        text = text["epsilon"]
    padded = f"0{text}".replace("0", f"0{padding}", 1) if padding[0] != " " else f"{text}{padding}"
    assert refused(forge(content_of("v2-lookup-levels"), set_at(*place, to=padded)))
