"""Which sketches can be joined, through which columns, and why others cannot."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saibot.discover import (
    DomainIndex,
    DomainRegistry,
    Join,
    Joinable,
    JoinFinder,
    NotJoinable,
    RequestKey,
    UnknownDomain,
    find_joins,
    row_index,
)
from saibot.errors import InvalidInput
from saibot.sketch import OTHER, Header, Key, KeyDomain, KeyPart, Sketch

DAYS = KeyDomain.of_dates(date(2013, 1, 1), date(2013, 2, 28))
PORTS = KeyDomain.of("nyc-ports", ["EWR", "JFK", "LGA"])
SCHOOLS = KeyDomain.of(
    "nyc-dbn",
    ["01M015", "01M019", "02M001", "13K003"],
    parents={"district": ["01", "01", "02", "13"], "borough": ["M", "M", "M", "K"]},
)
MakeHeader = Callable[..., Header]


@pytest.fixture(scope="session")
def make_header(make_sketch: Callable[..., Sketch]) -> MakeHeader:
    """`make_header(day=DAYS)` or, composite, `make_header(port=PORTS, day=DAYS)`: a real header with another key."""
    base = make_sketch(key="port", features=("arr_delay",)).header

    def make(levels: tuple[str, ...] = (), **parts: KeyDomain) -> Header:
        listed = tuple(
            KeyPart(
                name=name,
                domain=domain.id,
                version=domain.version,
                size=len(domain),
                digest=domain.digest,
                keys_digest=domain.keys_digest,
            )
            for name, domain in parts.items()
        )
        return base.model_copy(update={"key": Key(name="_".join(parts), parts=listed, levels=levels)})

    return make


@pytest.fixture
def registry(tmp_path: Path) -> DomainRegistry:
    return DomainRegistry(tmp_path / "domains")


def joinable(found: Joinable | NotJoinable) -> Joinable:
    assert isinstance(found, Joinable), found.explain()
    return found


def refused(found: Joinable | NotJoinable) -> str:
    assert isinstance(found, NotJoinable), found.explain()
    return found.reason


# ------------------------------------------------------------------------------------------------ what can be joined


def test_the_same_domain_joins_key_by_key(make_sketch: Callable[..., Sketch]) -> None:
    header = make_sketch(key="day", features=("arr_delay",)).header
    first, second = joinable(JoinFinder(RequestKey.of(day=DAYS)).find(header)).joins[:2]
    assert (first.level, first.coverage, first.columns[0].relation) == (0, 1.0, "same")
    assert first.explain() == "day ↔ day (the same keys)"
    assert (second.level_name, second.columns[0].column.label) == ("month", "day.month")
    assert second.explain() == "day.month ↔ day (the same keys) at its level month"


def test_a_part_of_a_composite_key_joins(make_sketch: Callable[..., Sketch]) -> None:
    request = RequestKey.of(port=PORTS, date=DAYS)
    port = make_sketch(key="port", features=("arr_delay",)).header
    day = make_sketch(key="day", features=("arr_delay",)).header
    both = make_sketch(key="port_day", features=("arr_delay",)).header
    finder = JoinFinder(request)
    assert [m.column.label for m in joinable(finder.find(port)).joins[0].columns] == ["port"]
    assert [m.column.label for m in joinable(finder.find(day)).joins[0].columns] == ["date"]
    assert [m.column.label for m in joinable(finder.find(both)).joins[0].columns] == ["port", "date"]
    assert joinable(finder.find(both)).explain().startswith("tiny-flights: port ↔ port (the same keys) and date ↔")


def test_the_parts_of_a_composite_key_may_stand_in_any_order(make_header: MakeHeader) -> None:
    (join,) = joinable(JoinFinder(RequestKey.of(day=PORTS, port=SCHOOLS)).find(make_header(a=SCHOOLS, b=PORTS))).joins
    assert [match.column.part for match in join.columns] == [1, 0]


def test_a_level_of_the_requests_key_joins_a_domain_of_its_own(make_header: MakeHeader) -> None:
    boroughs = KeyDomain.of("boroughs", ["M", "K"])
    (join,) = joinable(JoinFinder(RequestKey.of(school=SCHOOLS)).find(make_header(boro=boroughs))).joins
    assert join.columns[0].column.label == "school.borough" and join.columns[0].relation == "same"
    assert not join.columns[0].by_values and join.explain() == "school.borough ↔ boro (the same keys of boroughs v1)"


def test_a_coarser_level_of_the_sketch_joins_a_request_that_has_only_that(make_sketch: Callable[..., Sketch]) -> None:
    months = KeyDomain.of("months", ["2013-02", "2013-01"])
    header = make_sketch(key="day", features=("arr_delay",)).header
    (join,) = joinable(JoinFinder(RequestKey.of(month=months)).find(header)).joins
    assert (join.level, join.columns[0].relation, join.columns[0].by_values) == (1, "reordered", True)
    assert "check that they mean the same" in join.explain()


def test_two_parts_of_one_domain_offer_two_ways(make_header: MakeHeader) -> None:
    request = RequestKey.of(origin=PORTS, destination=PORTS)
    single = joinable(JoinFinder(request).find(make_header(port=PORTS)))
    assert [join.columns[0].column.label for join in single.joins] == ["origin", "destination"]
    double = joinable(JoinFinder(request).find(make_header(a=PORTS, b=PORTS)))
    assert {tuple(m.column.label for m in join.columns) for join in double.joins} == {
        ("origin", "destination"),
        ("destination", "origin"),
    }


def test_days_match_days_without_a_registry(make_header: MakeHeader) -> None:
    year = KeyDomain.of_dates(date(2012, 12, 1), date(2013, 12, 31))
    later = KeyDomain.of_dates(date(2013, 1, 15), date(2013, 3, 31))
    finder = JoinFinder(RequestKey.of(day=DAYS))
    first = joinable(finder.find(make_header(d=year))).joins[0]
    assert (first.columns[0].relation, first.coverage, first.columns[0].by_values) == ("contains", 1.0, False)
    near = joinable(finder.find(make_header(d=later))).joins[0]
    assert near.columns[0].relation == "near" and near.coverage == pytest.approx(45 / 59) and not near.exact
    assert "76.3% of the keys" in near.explain()


def test_another_version_is_a_near_match_by_name(make_header: MakeHeader, registry: DomainRegistry) -> None:
    newer = KeyDomain.of("nyc-dbn", [*SCHOOLS.values[1:], "32K999"], version=2)
    registry.register(newer)
    (join,) = joinable(JoinFinder(RequestKey.of(school=SCHOOLS), source=registry).find(make_header(dbn=newer))).joins
    assert join.coverage == 0.75 and join.columns[0].named_alike and not join.columns[0].by_values


def test_keys_that_are_named_differently_join_by_their_values(make_header: MakeHeader, registry: DomainRegistry) -> None:
    other = KeyDomain.of("school-codes", ["99X999", *SCHOOLS.values])
    registry.register(other)
    finder = JoinFinder(RequestKey.of(dbn=SCHOOLS), source=registry)
    (join,) = joinable(finder.find(make_header(code=other))).joins
    assert join.columns[0].relation == "contains" and join.columns[0].by_values
    assert join.explain() == (
        "dbn ↔ code (all keys and more of school-codes v1; matched by values only: check that they mean the same)"
    )


def test_a_domain_with_other_parents_still_joins_by_its_keys(make_header: MakeHeader, registry: DomainRegistry) -> None:
    registry.register(SCHOOLS)
    bare = KeyDomain.of("nyc-dbn", SCHOOLS.values, version=7)
    (join,) = joinable(JoinFinder(RequestKey.of(dbn=bare), source=registry).find(make_header(x=SCHOOLS))).joins
    assert join.columns[0].relation == "same"
    stripped = joinable(JoinFinder(RequestKey.of(dbn=SCHOOLS)).find(make_header(levels=("borough",), x=bare)))
    assert [join.level for join in stripped.joins] == [0]  # what that sketch calls borough is not known
    registry.register(other := KeyDomain.of("dbn", SCHOOLS.values, parents={"borough": ["M", "M", "M", "K"]}))
    known = JoinFinder(RequestKey.of(dbn=SCHOOLS), source=registry).find(make_header(levels=("borough",), x=other))
    assert [join.level_name for join in joinable(known).joins] == ["", "borough"]


def test_better_ways_come_first(make_header: MakeHeader, registry: DomainRegistry) -> None:
    days = KeyDomain.of_dates(date(2013, 1, 5), date(2013, 2, 28))
    found = joinable(JoinFinder(RequestKey.of(day=DAYS)).find(make_header(levels=("month", "year"), d=days)))
    assert [join.level_name for join in found.joins] == ["", "month", "year"]
    assert [join.exact for join in found.joins] == [False, True, True]


# ------------------------------------------------------------------------------------------------ what cannot


def test_a_sketch_without_a_key_says_so(make_sketch: Callable[..., Sketch]) -> None:
    header = make_sketch(features=("arr_delay",)).header
    assert "no key" in refused(JoinFinder(RequestKey.of(day=DAYS)).find(header))


def test_an_unknown_domain_is_named(make_header: MakeHeader) -> None:
    reason = refused(JoinFinder(RequestKey.of(day=DAYS)).find(make_header(school=SCHOOLS)))
    assert reason == (
        "its key 'school' (nyc-dbn v1) is not the request's (dates:2013-01-01:2013-02-28 v1), "
        "and nobody has registered which keys it has."
    )


def test_a_known_domain_without_a_common_key_is_named(make_header: MakeHeader, registry: DomainRegistry) -> None:
    registry.register(SCHOOLS)
    reason = refused(JoinFinder(RequestKey.of(day=DAYS), source=registry).find(make_header(school=SCHOOLS)))
    assert "shares no key" in reason


def test_too_few_common_keys_are_counted(make_header: MakeHeader, registry: DomainRegistry) -> None:
    few = KeyDomain.of("few", ["01M015", "x", "y"])
    registry.register(few)
    request = RequestKey.of(school=SCHOOLS)
    reason = refused(JoinFinder(request, source=registry).find(make_header(s=few)))
    assert "25.0% of the keys" in reason and "below the 50%" in reason
    assert (
        joinable(JoinFinder(request, source=registry, min_coverage=0.25).find(make_header(s=few))).joins[0].coverage == 0.25
    )


def test_a_sketch_that_is_finer_than_the_request_says_so(make_sketch: Callable[..., Sketch]) -> None:
    header = make_sketch(key="port_day", features=("arr_delay",)).header
    reason = refused(JoinFinder(RequestKey.of(port=PORTS)).find(header))
    assert "'plain_day'" in reason and "shares no key" in reason


def test_two_parts_cannot_share_one_column(make_header: MakeHeader) -> None:
    assert "2 parts and the request's 1" in refused(
        JoinFinder(RequestKey.of(port=PORTS)).find(make_header(a=PORTS, b=PORTS))
    )
    request = RequestKey.of(port=PORTS, school=SCHOOLS)
    assert "two parts of its key" in refused(JoinFinder(request).find(make_header(a=PORTS, b=PORTS)))


def test_good_sketches_are_found_among_bad_ones(make_header: MakeHeader, make_sketch: Callable[..., Sketch]) -> None:
    headers = [make_header(s=SCHOOLS), make_header(p=PORTS), make_sketch(features=("arr_delay",)).header]
    found = find_joins(RequestKey.of(port=PORTS), headers)
    assert [type(each) for each in found] == [NotJoinable, Joinable, NotJoinable]
    assert all(each.explain().startswith("tiny-flights: ") for each in found)


def test_with_an_index_hopeless_domains_are_not_read(
    make_header: MakeHeader, registry: DomainRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = RequestKey.of(number=KeyDomain.of_range(0, 999))
    far = KeyDomain.of("far", [str(n) for n in range(950, 2000)])
    near = KeyDomain.of("near", [str(n) for n in range(100, 1100)])
    for domain in (far, near):
        registry.register(domain)
    index = DomainIndex(tmp_path / "index.sqlite")
    index.sync(registry)
    fresh, read = DomainRegistry(registry.folder), []
    load = fresh._load
    monkeypatch.setattr(fresh, "_load", lambda name: read.append(name) or load(name))
    finder = JoinFinder(request, source=fresh, index=index)
    for header in (make_header(f=far), make_header(f=far)):
        reason = refused(finder.find(header))
        assert "has about" in reason and "below the 50%" in reason
    assert read == []
    assert joinable(finder.find(make_header(n=near))).joins[0].coverage == 0.9


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1])
def test_a_coverage_that_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(InvalidInput, match="share in"):
        JoinFinder(RequestKey.of(day=DAYS), min_coverage=share)


# ------------------------------------------------------------------------------------------------ the request's key


def test_a_private_requests_key_comes_from_its_sketch(make_sketch: Callable[..., Sketch], registry: DomainRegistry) -> None:
    header = make_sketch(key="port_day", features=("arr_delay",)).header
    with pytest.raises(UnknownDomain, match=r"nyc-ports.*Register"):
        RequestKey.of_header(header, registry)
    registry.register(PORTS)
    request = RequestKey.of_header(header, registry)
    assert request.names == ("port", "plain_day") and request.parts[0].values == PORTS.values
    assert [column.label for column in request.columns] == ["port", "plain_day", "plain_day.month", "plain_day.year"]
    with pytest.raises(InvalidInput, match="no key"):
        RequestKey.of_header(make_sketch(features=("arr_delay",)).header, registry)
    with pytest.raises(InvalidInput, match="at least one part"):
        RequestKey((), ())


# ------------------------------------------------------------------------------------------------ rows


def table_keys(*domains: tuple[str, ...]) -> tuple[np.ndarray, ...]:
    """The key columns of a sketch's table, as the release writes them."""
    grids = np.meshgrid(*(np.array(values, dtype=object) for values in domains), indexing="ij")
    return tuple(np.append(grid.ravel(), OTHER) for grid in grids)


def test_rows_of_a_real_sketch_are_found(make_sketch: Callable[..., Sketch]) -> None:
    sketch = make_sketch(key="port_day", features=("arr_delay",))
    request = RequestKey.of(day=DAYS, port=PORTS)  # the other way round
    join = joinable(JoinFinder(request).find(sketch.header)).joins[0]
    keys = sketch.levels[0].keys
    rows = row_index(join, request, keys)
    assert len(rows) == 59 * 3 + 1 and rows[-1] == len(sketch.levels[0]) - 1
    for i, day in enumerate(DAYS.values):
        for j, port in enumerate(PORTS.values):
            assert (keys[0][rows[3 * i + j]], keys[1][rows[3 * i + j]]) == (port, day)


def test_rows_of_a_coarser_level_are_those_of_the_parents(make_sketch: Callable[..., Sketch]) -> None:
    sketch = make_sketch(key="day", features=("arr_delay",))
    request = RequestKey.of(day=DAYS)
    join = next(j for j in joinable(JoinFinder(request).find(sketch.header)).joins if j.level == 1)
    rows = row_index(join, request, sketch.levels[1].keys)
    assert rows.tolist() == DAYS.with_levels(["month"]).parent_index(1).tolist()


KEYS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True)


@given(KEYS, KEYS, KEYS, KEYS, st.booleans())
def test_every_key_meets_its_row_or_the_catch_all(
    mine1: list[str], mine2: list[str], theirs1: list[str], theirs2: list[str], turned: bool
) -> None:
    request = RequestKey.of(x=KeyDomain.of("x", mine1), y=KeyDomain.of("y", [k + "!" for k in mine2]))
    theirs = (tuple(theirs1), tuple(k + "!" for k in theirs2))
    theirs = theirs[::-1] if turned else theirs
    parts = [
        KeyPart(name=f"p{i}", domain=f"t{i}", version=1, size=len(values), digest=f"{i}" * 64, keys_digest=f"{i + 5}" * 64)
        for i, values in enumerate(theirs)
    ]
    finder = JoinFinder(request, min_coverage=0.01)
    for part, values in zip(parts, theirs, strict=True):
        finder._columns._resolved[part.digest] = KeyDomain.of(part.domain, values)
    columns = next(finder._assignments(tuple(parts), ""), None)
    if columns is None:
        assert not set(mine1) & set(theirs1) or not set(mine2) & set(theirs2)
        return
    keys = table_keys(*theirs)
    rows = row_index(Join(0, "", columns), request, keys)
    pairs = [(a, b + "!") for a in mine1 for b in mine2]
    for (a, b), row in zip(pairs, rows, strict=False):
        wanted = (b, a) if turned else (a, b)
        there = all(key in values for key, values in zip(wanted, theirs, strict=True))
        assert (keys[0][row], keys[1][row]) == (wanted if there else (OTHER, OTHER))
    assert len(rows) == len(pairs) + 1 and rows[-1] == len(keys[0]) - 1


def test_columns_of_another_table_are_refused() -> None:
    request = RequestKey.of(port=PORTS)
    finder = JoinFinder(request)
    part = KeyPart(name="port", domain="nyc-ports", version=1, size=3, digest=PORTS.digest, keys_digest=PORTS.keys_digest)
    join = Join(0, "", next(finder._assignments((part,), "")))
    with pytest.raises(InvalidInput, match="not the key columns"):
        row_index(join, request, (np.array(["EWR", "JFK"], dtype=object),))
    with pytest.raises(InvalidInput, match="every combination"):
        row_index(join, request, (np.array(["EWR", "EWR", OTHER], dtype=object),))
