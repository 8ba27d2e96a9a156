"""The index in memory counts what a plain loop over sets would count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saibot.discover import postings as postings_module
from saibot.discover.minhash import key_hashes
from saibot.discover.postings import MAX_SETS, Postings
from saibot.errors import InvalidInput

SETS = st.lists(st.sets(st.integers(0, 60), max_size=20), max_size=25)
QUESTION = st.sets(st.integers(0, 60), max_size=30)


def hashed(numbers: set[int]) -> np.ndarray:
    return key_hashes(str(number) for number in numbers)


@given(SETS, QUESTION, st.sets(st.integers(0, 24)), st.booleans())
def test_hits_are_those_of_a_plain_loop(sets: list[set[int]], asked: set[int], dropped: set[int], between: bool) -> None:
    index = Postings()
    for slot, members in enumerate(sets):
        index.add(slot, hashed(members))
        if between:
            index.hits(hashed(asked), slot + 1)  # a question between two insertions must not change the outcome
    gone = {slot for slot in dropped if slot < len(sets)}
    for slot in gone:
        index.drop(slot, len(sets[slot]))
    counts, used = index.hits(hashed(asked), len(sets))
    assert used == len(asked) and len(counts) == len(sets)
    for slot, members in enumerate(sets):
        if slot not in gone:
            assert counts[slot] == len(members & asked)
    assert len(index) == sum(len(members) for slot, members in enumerate(sets) if slot not in gone)


def test_runs_stay_few_however_many_sets_are_added_one_by_one() -> None:
    index = Postings()
    for slot in range(300):
        index.add(slot, hashed(set(range(slot, slot + 10))))
        index.hits(hashed({1}), slot + 1)
    assert len(index._runs) <= 12


def test_postings_of_dropped_sets_go_when_they_are_many() -> None:
    index = Postings()
    for slot in range(10):
        index.add(slot, hashed(set(range(100 * slot, 100 * slot + 100))))
    for slot in range(8):
        index.drop(slot, 100)
    index.hits(hashed({1}), 10)
    assert sum(map(len, index._runs)) == len(index) == 200


def test_a_question_that_would_read_too_much_is_asked_with_fewer_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings_module, "MAX_READ", 100)
    index = Postings()
    members = set(range(40))
    for slot in range(10):
        index.add(slot, hashed(members))
    counts, used = index.hits(hashed(members), 10)
    assert used == 10 and (counts == 10).all()


def test_more_sets_than_there_are_numbers_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at most"):
        Postings().add(MAX_SETS, hashed({1}))
