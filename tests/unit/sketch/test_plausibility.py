"""What a sketch's numbers contradict is flagged; what noise can do is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from saibot.privacy import Neighbours
from saibot.sketch import Sketch, implausible, read_sketch
from tests.support.fabricating import fabricated, honest_sketch, with_numbers
from tests.support.forging import NAMES, content_of

TWO = ("level", "age")


def codes(sketch: Sketch) -> list[str]:
    return [flag.code for flag in implausible(sketch)]


@pytest.mark.parametrize("epsilon", ["0.05", "1", "30", "900"])
@pytest.mark.parametrize(
    "options",
    [{}, {"layout": "semiring"}, {"mechanism": "fpm"}, {"key": None}, {"neighbours": Neighbours.ADD_REMOVE}],
    ids=str,
)
def test_honest_sketches_are_flagged_for_nothing(epsilon: str, options: dict[str, object]) -> None:
    if options.get("mechanism") == "fpm" and float(epsilon) > 1:
        options = options | {"calibration": "analytic"}
    assert implausible(honest_sketch("rent", 3, epsilon=epsilon, features=TWO, **options)) == ()


@pytest.mark.parametrize("name", NAMES)
def test_golden_sketches_are_flagged_for_nothing(name: str) -> None:
    assert implausible(read_sketch(content_of(name))) == ()


@pytest.fixture
def honest() -> Sketch:
    return honest_sketch("rent", 3, features=TWO)


def numbers(sketch: Sketch) -> np.ndarray:
    return sketch.levels[0].values.copy()


def test_counts_that_do_not_come_to_the_rows_that_are_claimed(honest: Sketch) -> None:
    values = numbers(honest)
    values[:, 0] *= 1.2
    assert "rows" in codes(with_numbers(honest, values))
    (flag,) = (flag for flag in implausible(with_numbers(honest, values)) if flag.code == "rows")
    assert flag.text.startswith("its counts come to about 4,") and flag.text.endswith(" rows, and it claims 4,000")


def test_a_claim_of_a_billion_rows() -> None:
    flags = implausible(fabricated("fake", features=4, rows=10**9))
    assert [flag.code for flag in flags] == ["many-rows"] and "1,000,000,000 rows" in flags[0].text
    assert implausible(fabricated("fake", features=4, rows=10**6)) == (), "care is not seen through"


def test_whole_counts_have_no_noise(honest: Sketch) -> None:
    values = numbers(honest)
    values[:, 0] = np.round(values[:, 0])
    values[-1, 0] += 4000 - values[:, 0].sum()
    assert "noise" in codes(with_numbers(honest, values))


def test_numbers_that_vary_less_than_their_noise(honest: Sketch) -> None:
    values = numbers(honest)
    values[:, 1] = values[:, 1].mean() + 0.01 * (values[:, 1] - values[:, 1].mean())
    assert "noise" in codes(with_numbers(honest, values))


def test_means_beyond_their_bounds(honest: Sketch) -> None:
    values = numbers(honest)
    values[5, 1] = 3 * values[5, 0]
    assert "bounds" in codes(with_numbers(honest, values))


def test_sums_by_key_that_are_not_those_of_the_table(honest: Sketch) -> None:
    whole = honest.whole(1)
    assert whole is not None
    assert codes(with_numbers(honest, order1=whole + 400)) == ["sums"]


def test_variances_below_nothing_or_beyond_all_bounds(honest: Sketch) -> None:
    whole = honest.whole(2)
    assert whole is not None
    for changed in (-np.abs(whole), whole + 9000):
        assert codes(with_numbers(honest, order2=changed)) == ["spread"]


def test_sketches_without_rows_or_keys_are_looked_at_as_far_as_they_go(honest: Sketch) -> None:
    hidden = replace(honest, header=honest.header.model_copy(update={"invariants": {}}))
    assert implausible(hidden) == ()
    assert implausible(honest_sketch("rent", 3, key=None, features=TWO)) == ()
