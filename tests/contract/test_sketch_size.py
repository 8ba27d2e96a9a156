"""What the size of a sketch tells: nothing that it does not say. It follows from public facts and noisy numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.sketch import LevelTable, Sketch, read_sketch, write_sketch

CARD: dict[str, Any] = {
    "dataset": {"name": "t"},
    "features": {"x": {"bounds": [0, 10]}, "y": {"bounds": [0, 10]}},
    "keys": {"k": {"domain": {"range": [1, 8]}}},
}
GOLDEN = Path(__file__).parent / "golden"
PADDING = 2 * 8  # Arrow writes the header twice, each to a multiple of eight bytes


@pytest.fixture(params=[{"key": "k"}, {"key": "k", "layout": "semiring"}, {}], ids=["lookup", "semiring", "union"])
def two_releases(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Sketch, Sketch]:
    """Of one request, on as many rows that have nothing else in common."""
    terms = {"budget": Budget("1", "1e-6"), "neighbours": Neighbours.REPLACE_ONE, "allocation": "equal"} | request.param
    asked = ReleaseRequest(Card.parse(CARD), **terms)
    quiet = pd.DataFrame({"x": [5.0] * 200, "y": [5.0] * 200, "k": [1] * 200})
    rng = np.random.default_rng(0)
    loud = pd.DataFrame({"x": rng.uniform(0, 10, 200), "y": [10.0] * 200, "k": rng.integers(1, 20, 200)})
    one, other = (privatize(table, asked, Ledger(tmp_path / str(i))).sketch for i, table in enumerate((quiet, loud)))
    return one, other


def number_texts(sketch: Sketch) -> int:
    """How many letters the noisy numbers of the header take."""
    return sum(len(json.dumps(value)) for block in sketch.header.global_blocks for value in block.values)


def with_global_blocks_of(sketch: Sketch, other: Sketch) -> Sketch:
    header = sketch.header.model_copy(update={"global_blocks": other.header.global_blocks})
    return replace(sketch, header=header).sealed()


def test_sizes_of_one_request_differ_by_no_more_than_the_texts_of_noisy_numbers(
    two_releases: tuple[Sketch, Sketch],
) -> None:
    one, other = two_releases
    texts = abs(number_texts(one) - number_texts(other))
    assert abs(len(write_sketch(one)) - len(write_sketch(other))) <= 2 * texts + PADDING


def test_with_the_same_noisy_numbers_in_the_header_the_size_is_the_same_whatever_the_rows(
    two_releases: tuple[Sketch, Sketch],
) -> None:
    one, other = two_releases
    assert len(write_sketch(with_global_blocks_of(one, other))) == len(write_sketch(other))
    assert len(write_sketch(with_global_blocks_of(other, one))) == len(write_sketch(one))


def test_numbers_in_columns_never_change_the_size(two_releases: tuple[Sketch, Sketch]) -> None:
    one, _ = two_releases
    for value in (0.0, -1 / 3, 1e300):
        levels = tuple(LevelTable(table.keys, np.full_like(table.values, value)) for table in one.levels)
        assert len(write_sketch(replace(one, levels=levels).sealed())) == len(write_sketch(one))


def test_the_test_of_sizes_would_notice_a_longer_header(two_releases: tuple[Sketch, Sketch]) -> None:
    one, other = two_releases
    dataset = one.header.dataset.model_copy(update={"title": "anything learned from rows" * 20})
    longer = replace(one, header=one.header.model_copy(update={"dataset": dataset})).sealed()
    texts = abs(number_texts(longer) - number_texts(other))
    assert abs(len(write_sketch(longer)) - len(write_sketch(other))) > 2 * texts + PADDING


def test_writing_a_sketch_again_gives_the_same_bytes(two_releases: tuple[Sketch, Sketch]) -> None:
    for sketch in two_releases:
        content = write_sketch(sketch)
        assert write_sketch(read_sketch(content)) == content


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.saibot")), ids=lambda path: path.stem)
def test_the_size_of_a_file_is_a_function_of_what_is_in_it(path: Path) -> None:
    assert len(write_sketch(read_sketch(path))) == path.stat().st_size
