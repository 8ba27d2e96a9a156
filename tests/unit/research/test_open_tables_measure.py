"""The measurement of what open tables teach: who is judged, and what stays the same whatever is open."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from research.real.open_tables import agreement, open_records, public_sketch
from research.real.ours import MadeUp
from research.real.tasks import read_tasks
from research.real.world import Library, World
from saibot.estimate.lookup import lookup_values
from saibot.privacy import Budget


@pytest.fixture(scope="module")
def world() -> World:
    books = Library(MadeUp(schools=6))
    return books.world(read_tasks(books.tables.requests())[0])


def test_the_same_private_tables_are_judged_with_the_same_noise_whatever_is_open(world: World) -> None:
    rng = np.random.default_rng(2)
    found = pd.DataFrame(open_records(world, Budget("1", "1e-6"), runs=1, rng=rng, open_tables=(0, 3)))
    assert found["open"].tolist() == [0, 3] and found["judged"].nunique() == 1
    assert found["judged"][0] + min(10, len(world.names) // 3) == len(world.names)
    assert found["alone"].nunique() == 1, "private values by themselves do not depend on what is open"
    assert found[["alone", "shared"]].stack().between(0, 1).all()


def test_a_public_sketch_has_the_exact_means(world: World) -> None:
    sketch = public_sketch(world, 0)
    values = lookup_values(sketch).values[:, :-1]
    has_rows = world.counts[:1, :-1] > 0
    assert sketch.header.open
    np.testing.assert_allclose(values[has_rows], world.raw_values[:1][has_rows], atol=1e-4)
    assert agreement(values, world.raw_values[:1])[0] > 0.99
    assert agreement(np.zeros_like(values), world.raw_values[:1])[0] == 0
