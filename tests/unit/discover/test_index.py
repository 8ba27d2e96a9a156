"""The index on disk: what was deleted was never there, what was written is read, and others' changes are seen."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saibot.discover import DomainIndex, DomainRegistry, Place, closest, closest_to_domain
from saibot.errors import InvalidInput
from saibot.sketch import KeyDomain

SCHOOLS = KeyDomain.of(
    "nyc-dbn",
    ["01M015", "01M019", "02M001", "13K003"],
    parents={"district": ["01", "01", "02", "13"], "borough": ["M", "M", "M", "K"]},
)
DISTRICTS = KeyDomain.of("school-district", ["13", "02", "01", "32"])


def numbers(id: str, *ranges: tuple[int, int], version: int = 1) -> KeyDomain:
    return KeyDomain.of(id, [str(n) for low, high in ranges for n in range(low, high)], version=version)


def content(index: DomainIndex) -> Any:
    """All that an index says, by names rather than by its own numbers."""
    with sqlite3.connect(index.file) as db:
        sets = "SELECT p.*, s.digest, s.size, s.rung, s.hashes FROM place p JOIN key_set s USING (number)"
        found = [tuple(v for i, v in enumerate(row) if i != 4) for row in db.execute(f"{sets} ORDER BY 1, 2, 3")]
        unused = db.execute("SELECT count(*) FROM key_set WHERE number NOT IN (SELECT number FROM place)").fetchone()
        return found, db.execute("SELECT * FROM domain ORDER BY 1, 2").fetchall(), unused


def answers(index: DomainIndex, keys: list[str]) -> dict[Place, tuple[float, int]]:
    answer = index.ask(keys)
    places = index.places(answer.numbers.tolist())
    return {
        place: (answer.containment(i).value, answer.containment(i).sample)
        for i, number in enumerate(answer.numbers.tolist())
        for place in places[number]
    }


@pytest.fixture
def index(tmp_path: Path) -> DomainIndex:
    return DomainIndex(tmp_path / "index.sqlite")


DOMAINS = st.dictionaries(
    st.sampled_from([f"d{i}" for i in range(8)]), st.sets(st.integers(0, 40), min_size=1, max_size=30), max_size=8
)


@settings(max_examples=50)
@given(DOMAINS, DOMAINS, st.data())
def test_after_insert_and_delete_the_index_is_as_if_never_inserted(
    tmp_path_factory: pytest.TempPathFactory, kept: dict[str, set[int]], passing: dict[str, set[int]], data: Any
) -> None:
    folder = tmp_path_factory.mktemp("index")
    stays = [KeyDomain.of(f"stays-{id}", list(map(str, keys))) for id, keys in kept.items()]
    goes = [
        KeyDomain.of(id, list(map(str, keys)), parents={"tens": [str(key // 10) for key in keys]})
        for id, keys in passing.items()
    ]
    plain, busy = DomainIndex(folder / "plain.sqlite"), DomainIndex(folder / "busy.sqlite")
    plain.insert(*stays)
    steps = data.draw(st.permutations([*stays, *goes]))
    question = [str(n) for n in range(0, 40, 3)]
    for domain in steps:
        busy.insert(domain)
        if data.draw(st.booleans()):
            busy.ask(question)
    for domain in data.draw(st.permutations(goes)):
        assert busy.delete(domain.id, domain.version)
    assert content(plain) == content(busy)
    assert answers(plain, question) == answers(busy, question)
    assert answers(DomainIndex(busy.file), question) == answers(busy, question)
    assert len(plain) == len(busy) == len(stays)


@settings(max_examples=30)
@given(DOMAINS)
def test_an_index_opened_again_answers_as_before(
    tmp_path_factory: pytest.TempPathFactory, sets: dict[str, set[int]]
) -> None:
    file = tmp_path_factory.mktemp("index") / "index.sqlite"
    with DomainIndex(file) as index:
        for id, keys in sets.items():
            index.insert(KeyDomain.of(id, list(map(str, keys))))
        before = answers(index, ["1", "2", "3"])
    assert answers(DomainIndex(file), ["1", "2", "3"]) == before
    truth = {Place(id, 1, 0): len(keys & {1, 2, 3}) / 3 for id, keys in sets.items()}
    assert {place: value for place, (value, _) in before.items()} == pytest.approx(truth)


def test_inserting_twice_changes_nothing_and_other_content_replaces(index: DomainIndex) -> None:
    index.insert(numbers("d", (0, 10)))
    before = content(index)
    index.insert(numbers("d", (0, 10)))
    assert content(index) == before
    index.insert(numbers("d", (5, 15)))
    assert answers(index, ["0", "12"]) == {Place("d", 1, 0): (0.5, 2)}
    assert not index.delete("d", 7) and index.delete("d", 1) and len(index) == 0


def test_equal_sets_are_kept_once_with_all_their_places(index: DomainIndex) -> None:
    index.insert(
        numbers("a", (0, 10)), KeyDomain.of("b", [str(n) for n in range(9, -1, -1)]), numbers("a", (0, 10), version=2)
    )
    (number,) = index.ask(["1"]).numbers.tolist()
    assert index.places([number]) == {number: (Place("a", 1, 0), Place("a", 2, 0), Place("b", 1, 0))}
    index.delete("a", 1)
    assert index.places([number])[number] == (Place("a", 2, 0), Place("b", 1, 0))


def test_two_indexes_on_one_file_see_each_others_changes(index: DomainIndex) -> None:
    other = DomainIndex(index.file)
    index.insert(numbers("a", (0, 10)))
    assert answers(other, ["1"]) == {Place("a", 1, 0): (1.0, 1)}
    other.insert(numbers("b", (1, 3)))
    other.delete("a", 1)
    assert answers(index, ["1"]) == {Place("b", 1, 0): (1.0, 1)}
    index.delete("b", 1)
    other.insert(numbers("c", (2, 5)))
    assert answers(index, ["1", "2"]) == answers(other, ["1", "2"]) == {Place("c", 1, 0): (0.5, 2)}


def test_a_change_that_fails_leaves_nothing_behind(index: DomainIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    index.insert(numbers("a", (0, 10)))
    before = content(index)
    twice = KeyDomain("b", 1, ("x",), (("p", ("1",)), ("p", ("2",))))
    with monkeypatch.context() as patch:
        patch.setattr("saibot.discover.index._number", lambda *_: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            index.insert(numbers("c", (0, 3)), twice)
    assert content(index) == before
    index.insert(numbers("c", (0, 3)))
    assert len(index) == 2


def test_the_index_follows_the_registry(index: DomainIndex, tmp_path: Path) -> None:
    registry = DomainRegistry(tmp_path / "domains")
    for i in range(5):
        registry.register(numbers(f"d{i}", (i, i + 10)))
    assert index.sync(registry) == (5, 0) and index.sync(registry) == (0, 0)
    registry.remove("d0", 1)
    registry.remove("d1", 1)
    registry.register(numbers("d1", (50, 60)))
    assert index.sync(registry) == (2 - 1, 1)
    assert Place("d1", 1, 0) in {place for place, (value, _) in answers(index, ["55"]).items() if value == 1}


def test_a_file_that_is_no_index_is_refused_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "index.sqlite").write_bytes(b"not a database, but long enough to be looked at" * 50)
    with pytest.raises(InvalidInput, match="made again from the registry"):
        DomainIndex(tmp_path / "index.sqlite")
    with sqlite3.connect(tmp_path / "later.sqlite") as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(InvalidInput, match="version 99"):
        DomainIndex(tmp_path / "later.sqlite")


@pytest.mark.fault
def test_many_may_open_insert_and_ask_at_once(tmp_path: Path) -> None:
    start, problems = threading.Barrier(6), []

    def work(number: int) -> None:
        try:
            start.wait()
            with DomainIndex(tmp_path / "index.sqlite") as index:  # each has its own connection, as a process would
                for i in range(10):
                    index.insert(numbers(f"d{number}-{i}", (i, i + 10 + number)))
                    index.ask(["3"])
                    if i % 2:
                        assert index.delete(f"d{number}-{i}", 1)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    index = DomainIndex(tmp_path / "index.sqlite")
    assert len(index) == 30 and content(index)[2] == (0,)


def test_all_bounds_of_an_answer_hold_together(index: DomainIndex) -> None:
    rng = np.random.default_rng(4)
    sets = {f"d{i}": set(rng.choice(6000, int(rng.integers(1, 4000)), replace=False).tolist()) for i in range(60)}
    index.insert(*(KeyDomain.of(id, list(map(str, keys))) for id, keys in sets.items()))
    question = set(range(0, 6000, 7))
    answer = index.ask(map(str, question), doubt=1e-9)
    for i, number in enumerate(answer.numbers.tolist()):
        (place,) = index.places([number])[number]
        truth = len(question & sets[place.domain]) / len(question)
        assert answer.lower[i] - 1e-12 <= truth <= answer.upper[i] + 1e-12


# ------------------------------------------------------------------------------------------------ closest


@pytest.fixture
def registry(tmp_path: Path) -> DomainRegistry:
    return DomainRegistry(tmp_path / "domains")


def filled(registry: DomainRegistry, index: DomainIndex, *domains: KeyDomain) -> None:
    for domain in domains:
        registry.register(domain)
    index.sync(registry)


def test_keys_that_are_named_differently_are_found_by_their_values(registry: DomainRegistry, index: DomainIndex) -> None:
    filled(registry, index, SCHOOLS, DISTRICTS, numbers("fips", (1000, 1100)))
    found = closest_to_domain(index, registry, SCHOOLS)
    (match,) = found["district"].matches
    assert match.places == (Place("school-district", 1, 0),) and (match.shared, match.coverage) == (3, 1.0)
    assert match.precision == 0.75 and "holds 100.0% of the keys" in match.explain()
    assert found["district"].certain and found[""].matches == ()
    (back,) = (
        m for m in closest(index, registry, DISTRICTS.values).matches if m.places != (Place("school-district", 1, 0),)
    )
    assert back.places == (Place("nyc-dbn", 1, 1, "district"),) and back.coverage == 0.75


def test_the_closest_are_those_of_exact_counting(registry: DomainRegistry, index: DomainIndex) -> None:
    rng = np.random.default_rng(7)
    domains = [
        KeyDomain.of(f"d{i}", rng.choice(3000, int(rng.integers(5, 2500)), replace=False).astype(str)) for i in range(40)
    ]
    filled(registry, index, *domains)
    question = rng.choice(3000, 800, replace=False).astype(str).tolist()
    truth = sorted((len(set(question) & set(d.values)) for d in domains), reverse=True)
    found = closest(index, registry, question, top=5)
    assert [match.shared for match in found.matches] == truth[:5] and found.certain
    assert found.counted < len(domains)
    assert all(match.estimate.lower <= match.coverage <= match.estimate.upper for match in found.matches)


def test_few_keys_in_a_large_domain_are_found_by_thorough_counting_only(
    registry: DomainRegistry, index: DomainIndex
) -> None:
    filled(registry, index, numbers("large", (0, 20_000)), numbers("small", (0, 1)))
    missed = next([str(n), str(n + 1)] for n in range(1, 20_000, 2) if not index.ask([str(n), str(n + 1)]).hits.any())
    quick, thorough = (closest(index, registry, missed, thorough=thorough) for thorough in (False, True))
    assert quick.matches == () and quick.rest == 1.0 and not quick.certain
    assert thorough.matches[0].coverage == 1.0 and thorough.certain


def test_a_domain_that_was_removed_meanwhile_is_left_out(registry: DomainRegistry, index: DomainIndex) -> None:
    filled(registry, index, numbers("a", (0, 10)), numbers("b", (0, 8)), numbers("c", (0, 10)))
    registry.remove("a", 1)
    found = closest(index, registry, [str(n) for n in range(10)])
    assert [(str(match.places[-1]), match.shared) for match in found.matches] == [("c v1", 10), ("b v1", 8)]
    registry.remove("c", 1)
    assert [match.shared for match in closest(index, registry, [str(n) for n in range(10)]).matches] == [8]


def test_an_empty_question_or_index_has_an_empty_answer(registry: DomainRegistry, index: DomainIndex) -> None:
    assert closest(index, registry, []).matches == () and closest(index, registry, ["a"]).certain
    filled(registry, index, SCHOOLS)
    assert closest(index, registry, ["01M015"], top=0).matches == ()
