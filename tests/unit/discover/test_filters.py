"""Filters leave a sketch out only where it is clearly outside what was asked for, and say why."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saibot.discover import Filter, Range, check_header, check_sketch, filter_sketches
from saibot.discover.filters import rows_per_key, share_in_domain
from saibot.errors import InvalidInput
from saibot.estimate import profile
from saibot.estimate.profile import Estimate
from saibot.privacy import Neighbours
from saibot.sketch import Sketch
from saibot.sketch.header import Preparation

MakeSketch = Callable[..., Sketch]


@pytest.fixture(scope="session")
def sketch(make_sketch: MakeSketch) -> Sketch:
    return make_sketch(key="port", features=("arr_delay", "origin"))


def kept(sketch: Sketch, wanted: Filter) -> bool:
    return check_sketch(sketch, wanted).kept


# ------------------------------------------------------------------------------------------------ ranges


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6), st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_a_number_is_outside_only_by_more_than_two_errors(value: float, error: float, low: float, width: float) -> None:
    found = Range(low, low + width).clearly_outside(Estimate(value, error))
    assert (found is not None) == (value + 2 * error < low or value - 2 * error > low + width)


def test_a_number_that_noise_has_drowned_is_never_outside() -> None:
    assert Range(5, 6).clearly_outside(Estimate(None, None)) is None
    assert Range().clearly_outside(Estimate(1e9, 0.0)) is None


def test_a_range_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least 2 and at most 1"):
        Range(2, 1)
    with pytest.raises(InvalidInput, match="finite"):
        Range(float("nan"))


# ------------------------------------------------------------------------------------------------ headers


def test_everything_private_passes_an_empty_filter(sketch: Sketch) -> None:
    verdict = check_sketch(sketch, Filter())
    assert verdict.kept and verdict.explain() == "tiny-flights: kept"


def test_simulated_noise_must_be_asked_for(sketch: Sketch) -> None:
    simulated = sketch.header.model_copy(update={"simulation": True})
    assert "nothing in it is private" in check_header(simulated, Filter()).reasons[0]
    assert check_header(simulated, Filter(simulation=True)).kept


def test_a_nonprivate_preparation_must_be_asked_for(sketch: Sketch) -> None:
    header = sketch.header.model_copy(update={"preparation": Preparation(kind="nonprivate")})
    assert "not private" in check_header(header, Filter()).reasons[0]
    assert check_header(header, Filter(nonprivate=True)).kept
    bought = sketch.header.model_copy(update={"preparation": Preparation(kind="bought")})
    assert check_header(bought, Filter()).kept


@pytest.mark.parametrize(
    "words",
    ["flights", "FLÜGE new york", "fluge", "arr delay", "arr_delay", "nyc-ports", "minute", "depart", "origin=JFK", "  "],
)
def test_words_are_found_wherever_the_sketch_speaks_of_itself(sketch: Sketch, words: str) -> None:
    assert check_header(sketch.header, Filter(words=words)).kept


def test_every_word_must_begin_some_word(sketch: Sketch) -> None:
    verdict = check_header(sketch.header, Filter(words="york parture"))
    assert verdict.reasons == ("no word that begins with 'parture' in what it says about itself",)


def test_features_are_asked_for_by_name_or_by_their_categorical_column(sketch: Sketch) -> None:
    assert check_header(sketch.header, Filter(features=("arr_delay", "origin", "origin=JFK"))).kept
    assert check_header(sketch.header, Filter(features=("depth",))).reasons == ("it has no feature 'depth'",)


def test_neighbours_are_asked_for(sketch: Sketch) -> None:
    assert check_header(sketch.header, Filter(neighbours=Neighbours.REPLACE_ONE)).kept
    assert "not add-remove" in check_header(sketch.header, Filter(neighbours=Neighbours.ADD_REMOVE)).reasons[0]


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"least_epsilon": "1", "most_epsilon": "1.0", "most_delta": "1e-6"}, None),
        ({"least_epsilon": "1.01"}, "noisier"),
        ({"most_epsilon": "0.999"}, "less protected"),
        ({"most_delta": "0"}, "δ=1e-6 is above 0"),
    ],
)
def test_budgets_are_compared_exactly(sketch: Sketch, limits: dict[str, str], why: str | None) -> None:
    verdict = check_header(sketch.header, Filter(**limits))
    assert verdict.kept if why is None else why in verdict.reasons[0]


def test_every_reason_is_told(sketch: Sketch) -> None:
    wanted = Filter(words="zebra", most_epsilon="0.1", neighbours=Neighbours.ADD_REMOVE)
    verdict = check_header(sketch.header, wanted)
    assert len(verdict.reasons) == 3 and verdict.explain().startswith("tiny-flights: left out: ")


# ------------------------------------------------------------------------------------------------ profiles


def test_a_public_count_is_judged_exactly(sketch: Sketch) -> None:
    assert kept(sketch, Filter(count=Range(60, 60)))
    assert not kept(sketch, Filter(count=Range(low=61))) and not kept(sketch, Filter(count=Range(high=59)))
    assert kept(sketch, Filter(rows_per_key=Range(20, 20))) and not kept(sketch, Filter(rows_per_key=Range(low=20.1)))


def test_a_noisy_count_is_given_the_benefit_of_the_doubt(make_sketch: MakeSketch) -> None:
    noisy = make_sketch(key="port", features=("arr_delay",), neighbours=Neighbours.ADD_REMOVE)
    count = profile(noisy).count
    assert count.value is not None and count.error
    assert kept(noisy, Filter(count=Range(low=count.value + 1.9 * count.error)))
    assert not kept(noisy, Filter(count=Range(low=count.value + 2.1 * count.error)))


def test_means_and_deviations_are_judged_with_their_errors(sketch: Sketch) -> None:
    mean = profile(sketch).features[0].mean
    assert mean.value is not None and mean.error is not None
    inside, outside = mean.value + 1.9 * mean.error, mean.value + 2.1 * mean.error
    assert kept(sketch, Filter(means={"arr_delay": Range(low=inside)}))
    verdict = check_sketch(sketch, Filter(means={"arr_delay": Range(low=outside)}))
    assert "the mean of arr_delay is" in verdict.reasons[0] and "clearly below" in verdict.reasons[0]
    assert check_sketch(sketch, Filter(means={"depth": Range(low=0)})).reasons == ("it has no feature 'depth'",)
    assert check_sketch(sketch, Filter(deviations={"arr_delay": Range(high=1e9)})).kept


def test_the_share_of_rows_inside_the_domain_is_judged(make_sketch: MakeSketch) -> None:
    precise = make_sketch(key="day", features=("arr_delay",), epsilon="1000")
    share = share_in_domain(precise, profile(precise))
    assert share is not None and share.value == pytest.approx(0.9, abs=6 * (share.error or 0))  # 6 of 60 rows lie outside
    assert share.error
    assert kept(precise, Filter(in_domain=Range(low=share.value + 1.9 * share.error)))
    assert not kept(precise, Filter(in_domain=Range(low=share.value + 2.1 * share.error)))


def test_a_sketch_without_a_key_cannot_have_what_keys_have(make_sketch: MakeSketch) -> None:
    plain = make_sketch(features=("arr_delay",))
    assert share_in_domain(plain, profile(plain)) is None and rows_per_key(plain, profile(plain)) is None
    assert "no key" in check_sketch(plain, Filter(in_domain=Range(low=0.1))).reasons[0]


def test_coverage_is_what_the_join_states(sketch: Sketch) -> None:
    wanted = Filter(coverage=Range(low=0.8))
    assert check_sketch(sketch, wanted, coverage=0.8).kept and not check_sketch(sketch, wanted, coverage=0.79).kept
    unknown = check_sketch(sketch, wanted)
    assert unknown.kept and "not joined" in unknown.notes[0]


def test_a_sketch_that_has_no_profile_stays_in_with_a_note(make_sketch: MakeSketch) -> None:
    centred = make_sketch(features=("arr_delay", "distance"), mechanism="fpm-opt")
    verdict = check_sketch(centred, Filter(count=Range(low=10**9)))
    assert verdict.kept and verdict.notes[0].startswith("no profile: ")


def test_what_passes_keeps_its_order_and_the_rest_has_reasons(make_sketch: MakeSketch, sketch: Sketch) -> None:
    other = make_sketch(features=("distance", "arr_delay"))
    passed, dropped = filter_sketches([other, sketch, other], Filter(features=("distance",)))
    assert passed == [other, other] and [verdict.reasons for verdict in dropped] == [("it has no feature 'distance'",)]
