"""Which sketches add to a request, with which mapping, and why others do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saibot.discover import Addable, NotAddable, find_unions, match_union
from saibot.errors import InvalidInput
from saibot.privacy import Neighbours
from saibot.sketch import Feature, Header, KeyDomain, Sketch

PORTS = KeyDomain.of("nyc-ports", ["EWR", "JFK", "LGA"])
DELAY = Feature(name="arr_delay", kind="numeric", lower=-30.0, upper=120.0, unit="minute", missing=0.0)
DISTANCE = Feature(name="distance", kind="numeric", lower=0.0, upper=3000.0, unit="mile", missing=1500.0)
BOTH = (DELAY, DISTANCE)


@pytest.fixture(scope="session")
def header(make_sketch: Callable[..., Sketch]) -> Header:
    return make_sketch(features=("arr_delay", "distance")).header


def with_features(header: Header, *features: Feature) -> Header:
    return header.model_copy(update={"features": features})


def varied(feature: Feature, **changes: object) -> Feature:
    return Feature.model_validate(feature.model_dump() | changes)


def addable(found: Addable | NotAddable) -> Addable:
    assert isinstance(found, Addable), found.explain()
    return found


def refused(found: Addable | NotAddable) -> str:
    assert isinstance(found, NotAddable), found.explain()
    return found.reason


# ------------------------------------------------------------------------------------------------ what adds


def test_identical_features_add_as_they_are(header: Header) -> None:
    found = addable(match_union(BOTH, header, neighbours=Neighbours.REPLACE_ONE))
    assert found.identical and found.ignored == ()
    assert "the same arr_delay, distance" in found.explain()


def test_extra_features_are_ignored_and_named(header: Header) -> None:
    found = addable(match_union((DISTANCE,), header))
    assert found.ignored == ("arr_delay",) and [each.position for each in found.features] == [1]
    assert "ignored: arr_delay" in found.explain()


def test_other_bounds_are_converted(header: Header) -> None:
    wide = varied(DELAY, lower=-60.0, upper=240.0)
    (mapped,) = addable(match_union((wide,), header)).features
    assert (mapped.factor, mapped.shift) == (0.5, -0.3) and not mapped.identical
    assert mapped.explain() == "arr_delay ↔ arr_delay (scaled × 0.5 -0.3; bounds [-30, 120] to [-60, 240])"
    far = varied(DELAY, lower=500.0, upper=600.0, missing=550.0)
    assert "do not even touch" in addable(match_union((far,), header)).explain()


@given(
    st.lists(st.tuples(st.floats(-100, 100), st.floats(0.5, 100)), min_size=2, max_size=2),
    st.lists(st.tuples(st.floats(-100, 100), st.floats(0.5, 100)), min_size=2, max_size=2),
    st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=1, max_size=10),
)
def test_converted_moments_are_those_of_converted_rows(
    header: Header, mine: list[tuple[float, float]], theirs: list[tuple[float, float]], rows: list[tuple[float, float]]
) -> None:
    names = ("x", "y")
    ours = [Feature(name=n, kind="numeric", lower=a, upper=a + w) for n, (a, w) in zip(names, mine, strict=True)]
    other = [Feature(name=n, kind="numeric", lower=a, upper=a + w) for n, (a, w) in zip(names, theirs, strict=True)]
    found = addable(match_union(ours, with_features(header, *other[::-1])))
    matrix, shift = found.transform(2)
    scaled = np.array(rows)[:, ::-1]  # in the sketch's order: y, x
    original = scaled * [f.scale for f in other[::-1]] + [f.offset for f in other[::-1]]
    expected = (original[:, ::-1] - [f.offset for f in ours]) / [f.scale for f in ours]
    np.testing.assert_allclose(scaled @ matrix.T + shift, expected, rtol=1e-9, atol=1e-6)
    c, s, q = len(rows), scaled.sum(axis=0), scaled.T @ scaled
    sums = matrix @ s + c * shift
    moved = np.outer(matrix @ s, shift)
    products = matrix @ q @ matrix.T + moved + moved.T + c * np.outer(shift, shift)
    np.testing.assert_allclose(sums, expected.sum(axis=0), rtol=1e-9, atol=1e-4)
    np.testing.assert_allclose(products, expected.T @ expected, rtol=1e-7, atol=1e-2)


def test_names_that_read_the_same_are_mapped_and_said_to_be(header: Header) -> None:
    loose = varied(DELAY, name="Arr Delay")
    (mapped,) = addable(match_union((loose,), header)).features
    assert (mapped.request, mapped.sketch, mapped.notes) == ("Arr Delay", "arr_delay", ("named differently",))
    two = with_features(header, DELAY, varied(DELAY, name="ARR-DELAY"))
    assert "no feature 'Arr Delay'" in refused(match_union((loose,), two))


def test_features_can_be_mapped_by_hand(header: Header) -> None:
    late = varied(DELAY, name="late")
    found = addable(match_union((late,), header, names={"late": "arr_delay"}))
    assert found.features[0].sketch == "arr_delay"
    assert "no feature 'depth'" in refused(match_union((late,), header, names={"late": "depth"}))
    with pytest.raises(InvalidInput, match="no feature 'early'"):
        match_union((late,), header, names={"early": "arr_delay"})


def test_other_missing_values_are_noted(header: Header) -> None:
    (mapped,) = addable(match_union((varied(DELAY, missing=5.0),), header)).features
    assert mapped.identical and mapped.notes == ("missing cells are 0 there",)


def test_indicators_add_level_by_level(make_sketch: Callable[..., Sketch]) -> None:
    header = make_sketch(features=("arr_delay", "origin")).header
    ours = (DELAY, *(each for each in header.features if each.level in ("EWR", "LGA")))
    found = addable(match_union(ours, header))
    assert found.identical and found.ignored == ("origin=JFK",) and "one of 3 levels there" in found.explain()
    stranger = Feature(name="origin=BOS", kind="indicator", lower=0.0, upper=1.0, column="origin", level="BOS")
    assert "no feature 'origin=BOS'" in refused(match_union((stranger,), header))
    relabelled = with_features(header, varied(header.features[1], level="JFK"))
    assert "another level" in refused(match_union((header.features[1],), relabelled))


def test_keys_add_only_where_they_are_the_requests(make_sketch: Callable[..., Sketch], header: Header) -> None:
    keyed = make_sketch(key="port", features=("arr_delay", "distance")).header
    keys = (PORTS.keys_digest,)
    assert addable(match_union(BOTH, keyed, keys=keys)).keyed
    assert not addable(match_union(BOTH, keyed, keys=("0" * 64,))).keyed
    assert not addable(match_union(BOTH, keyed, keys=keys * 2)).keyed
    assert not addable(match_union(BOTH, keyed)).keyed
    plain = addable(match_union(BOTH, header, keys=keys))
    assert not plain.keyed and "whole-table sums only" in plain.explain()


# ------------------------------------------------------------------------------------------------ what does not


def test_a_missing_feature_is_named(header: Header) -> None:
    other = varied(DELAY, name="dep_delay")
    assert refused(match_union((other,), header)) == "it has no feature 'dep_delay'; it has arr_delay, distance."


@pytest.mark.parametrize(("unit", "said"), [("hour", "in hour"), ("", "in no unit"), ("Minute", "in Minute")])
def test_another_unit_is_refused(header: Header, unit: str, said: str) -> None:
    other = with_features(header, varied(DELAY, unit=unit))
    assert said in refused(match_union((DELAY,), other)) and "in minute" in refused(match_union((DELAY,), other))
    assert addable(match_union((varied(DELAY, unit=" minute "),), header)).identical


def test_another_kind_is_refused(header: Header) -> None:
    component = varied(DELAY, kind="component", weights={"a": 1.0}, missing=None)
    assert "of kind numeric" in refused(match_union((component,), header))
    other = with_features(header, varied(component, weights={"a": 0.8, "b": 0.6}))
    assert "another direction" in refused(match_union((component,), other))


def test_two_features_cannot_stand_for_one(header: Header) -> None:
    ours = (DELAY, varied(DELAY, name="again"))
    assert "two features" in refused(match_union(ours, header, names={"again": "arr_delay"}))


def test_a_scatter_around_its_own_mean_does_not_add(make_sketch: Callable[..., Sketch]) -> None:
    centred = make_sketch(features=("arr_delay", "distance"), mechanism="fpm-opt").header
    assert "scatter around its own mean" in refused(match_union(BOTH, centred))


def test_other_neighbours_do_not_add_unless_the_request_is_local(make_sketch: Callable[..., Sketch]) -> None:
    other = make_sketch(features=("arr_delay", "distance"), neighbours=Neighbours.ADD_REMOVE).header
    assert "protected under add-remove" in refused(match_union(BOTH, other, neighbours=Neighbours.REPLACE_ONE))
    assert addable(match_union(BOTH, other, neighbours=Neighbours.ADD_REMOVE)).identical
    free = {"open": True, "source": "https://example.org", "budget": {}, "plan": {}}
    public = other.model_copy(update=free)
    assert public.protected_under is None and addable(match_union(BOTH, public, neighbours=Neighbours.REPLACE_ONE)).identical
    assert addable(match_union(BOTH, other)).identical


def test_a_sketch_without_products_does_not_add(make_sketch: Callable[..., Sketch]) -> None:
    first = make_sketch(features=("arr_delay", "distance"), order=1).header
    assert "no products" in refused(match_union(BOTH, first))
    assert "cannot be read" in refused(match_union(BOTH, first.model_copy(update={"plan": {"blocks": 1}})))


def test_good_sketches_are_found_among_bad_ones(header: Header, make_sketch: Callable[..., Sketch]) -> None:
    bad = make_sketch(features=("arr_delay",)).header
    found = find_unions(BOTH, [bad, header], neighbours=Neighbours.REPLACE_ONE)
    assert [type(each) for each in found] == [NotAddable, Addable]
    assert all(each.explain().startswith("tiny-flights: ") for each in found)
    with pytest.raises(InvalidInput, match="at least one feature"):
        match_union((), header)
