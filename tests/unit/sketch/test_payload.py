"""A copy under another name has the same payload; nothing else has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from saibot.sketch import LevelTable, SigningKey, Sketch, payload_of, read_sketch, signed
from tests.support.fabricating import honest_sketch, renamed, with_numbers
from tests.support.forging import NAMES, content_of

TWO = ("level", "age")


def test_a_name_a_text_a_day_or_a_signature_makes_no_other_payload() -> None:
    sketch = honest_sketch("rent")
    copies = [renamed(sketch, "mine"), signed(sketch, SigningKey.new()), renamed(sketch, "mine", edition=7)]
    assert {payload_of(copy) for copy in copies} == {payload_of(sketch)}
    assert len({copy.digest for copy in copies}) == 3


def _shuffled(sketch: Sketch) -> Sketch:
    order = np.random.default_rng(0).permutation(len(sketch.levels[0]))
    table = sketch.levels[0]
    return Sketch(sketch.header, (LevelTable(tuple(part[order] for part in table.keys), table.values[order]),))


def test_a_copy_with_its_keys_in_another_order_or_with_features_left_out_is_one() -> None:
    sketch = honest_sketch("rent", features=TWO)
    fewer = replace(sketch, levels=(LevelTable(sketch.levels[0].keys, sketch.levels[0].values[:, :2]),))
    assert payload_of(_shuffled(sketch)) == payload_of(fewer) == payload_of(sketch)


def test_two_releases_of_one_table_have_two_payloads() -> None:
    made = [honest_sketch("rent"), honest_sketch("rent", epsilon="5.0"), honest_sketch("rent", 2)]
    assert len({payload_of(sketch) for sketch in made}) == 3


def test_one_number_that_was_changed_is_another_release() -> None:
    sketch = honest_sketch("rent")
    values = sketch.levels[0].values.copy()
    values[3, 0] += 1e-6
    assert payload_of(with_numbers(sketch, values)) != payload_of(sketch)


def test_two_public_tables_with_the_same_values_at_other_keys_are_two() -> None:
    """A ranking and another one: the same numbers 1 to n, in another order."""
    sketch = read_sketch(content_of("v2-open-levels"))
    table = sketch.levels[0]
    turned = replace(sketch, levels=(LevelTable(table.keys, table.values[::-1].copy()), *sketch.levels[1:]))
    assert payload_of(turned) != payload_of(sketch)


@pytest.mark.parametrize("keys", [12, 40, 400])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 5.0])
def test_tables_with_a_row_for_every_key_are_no_copies_of_each_other(keys: int, sigma: float) -> None:
    """All counts are 1 before noise; sorted, those of every tenth pair would agree where there is little of it."""
    rng, sketch = np.random.default_rng(keys), honest_sketch("rent")
    names = tuple(np.array([f"k{i:03d}" for i in range(keys)]) for _ in sketch.levels[0].keys)

    def made() -> Sketch:
        counts = np.round(1 + rng.normal(0, sigma, keys))
        values = np.column_stack([counts, rng.normal(50, 20, (keys, sketch.levels[0].values.shape[1] - 1))])
        return replace(sketch, levels=(LevelTable(names, values),))

    assert len({payload_of(made()) for _ in range(2000)}) == 2000


@pytest.mark.parametrize("name", NAMES)
def test_of_few_keys_of_simulated_noise_and_of_open_tables_all_numbers_count(name: str) -> None:
    sketch = read_sketch(content_of(name))
    if sketch.levels:
        table = sketch.levels[0]
        last = table.values.copy()
        last[0, -1] += 1
        changed = replace(sketch, levels=(LevelTable(table.keys, last), *sketch.levels[1:]))
    else:
        orders = {f"order{block.order}": np.array(block.values) + 1 for block in sketch.header.global_blocks}
        changed = with_numbers(sketch, **orders)
    assert payload_of(changed) != payload_of(sketch)
