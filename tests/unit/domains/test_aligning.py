"""Two lists of keys meet by their texts; a signature says early where they cannot."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saibot.domains import KeyDomain, align, domain
from saibot.domains.file import card_of, read_domain, read_signature, write_domain
from saibot.domains.minhash import most_shared, signature

OURS = [f"s{i:03d}" for i in range(400)]


def of(values: list[str]) -> KeyDomain:
    return KeyDomain.of("theirs", values)


def test_another_order_is_no_obstacle() -> None:
    met = align(OURS, of(OURS[::-1]))
    assert met.places.tolist() == list(range(399, -1, -1)) and met.share == 1
    assert met.explain("ours", "theirs") == "joined on all 400 keys of ours, which theirs lists in another order"


def test_a_part_of_the_keys_meets_and_the_rest_is_outside() -> None:
    met = align(OURS, of([*OURS[:240], "else"]))
    assert met.shared == 240 and set(met.places[240:]) == {241}
    assert met.explain("ours", "theirs") == (
        "joined on 60 % of the keys of ours (240 of 400), which theirs lists among 1 others"
    )


@pytest.mark.parametrize(
    "ours, theirs, words",
    [
        (OURS, [key.upper() for key in OURS], "in another case"),
        ([key[1:] for key in OURS], [str(i) for i in range(400)], "with other zeros in front"),
        (["1", "b"], ["1.0", "B"], "in another spelling"),
    ],
)
def test_other_spellings_are_met_and_named(ours: list[str], theirs: list[str], words: str) -> None:
    met = align(ours, of(theirs))
    assert met.share == 1
    assert met.explain("ours", "theirs") == f"joined on all {len(ours)} keys of ours, which theirs lists {words}"


def test_two_of_ours_never_meet_one_of_theirs() -> None:
    assert align(["a", "A"], of(["a"])).places.tolist() == [0, 1]
    assert align(["07", "007"], of(["7"])).places.tolist() == [1, 1]


keys = st.lists(st.text("aAb01", min_size=1, max_size=3), min_size=1, max_size=8, unique=True)


@given(keys, keys)
def test_what_meets_is_one_to_one_and_every_equal_text_meets(ours: list[str], theirs: list[str]) -> None:
    met = align(ours, of(theirs))
    inside = met.places[met.places < met.size]
    assert len(set(inside.tolist())) == len(inside)
    assert all(theirs[place] == key for key, place in zip(ours, met.places, strict=True) if key in theirs)


def test_a_signature_rules_out_strangers_and_never_relatives() -> None:
    mine = signature(OURS)
    assert most_shared(mine, 400, signature([f"x{i}" for i in range(400)]), 400) < 40
    for share in (0.1, 0.3, 0.6, 1.0):
        part = OURS[: int(400 * share)]
        assert most_shared(mine, 400, signature([key.upper() for key in part]), len(part)) >= len(part) * 0.999


def test_a_signature_is_the_same_in_any_order_and_travels_with_the_file() -> None:
    domain = of(OURS)
    made = signature(domain.values)
    np.testing.assert_array_equal(made, signature(OURS[::-1]))
    content = write_domain(domain, card_of(domain), signature=made)
    card, read = read_signature(content, name="x")
    np.testing.assert_array_equal(read, made)
    assert read_domain(content, name="x") == (card, domain)
    assert read_signature(write_domain(domain, card), name="x")[1] is None


def test_signatures_are_fixed_for_good() -> None:
    """Corpora keep them: computed another way, no list would meet another one any more."""
    assert signature(["a", "b", "c"])[:4].tolist() == FIRST


FIRST = [2023704368, 998288060, 80444533, 1209126472]


KEYS = [
    "7",
    "07",
    "2020-01",
    "8.0",
    "-0",
    "0",
    "abc",
    "ABC",
    "Ost",
    "été",
    "ÉTÉ",
    "2020-01-01",
    "2020-01-01 00:00:00",
    "1e-05",
    "9",
]


TEXTS = [*KEYS, "7.0", "008", "OST", "0.00001", "2020-01-15"]


@given(st.lists(st.sampled_from(KEYS), unique=True, min_size=1), st.lists(st.sampled_from(TEXTS)))
@pytest.mark.parametrize("name", ["things", "months:2020-01:2020-12"])
def test_a_large_list_is_met_as_a_small_one_and_keeps_nothing(name: str, theirs: list[str], ours: list[str]) -> None:
    listed = KeyDomain(name, 1, tuple(theirs))
    expected = listed.places(ours)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(domain, "LARGE", 0)
        large = KeyDomain(name, 1, tuple(theirs))
        assert large.places(ours, once=True).tolist() == expected.tolist()
        assert not {"index", "_other_spellings", "_folded"} & large.__dict__.keys()
