"""How a key text is found in a public domain: by itself first, then by a spelling that belongs to one key alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saibot.domains import KeyDomain, folded, normal_key


def place(keys: list[str], text: str) -> int:
    return int(KeyDomain.of("d", keys).places([text])[0])


@pytest.mark.parametrize(
    "key, text",
    [
        ("01001", "1001"),  # a county code that a spreadsheet took for a number
        ("1001", "01001"),
        ("01001", "1001.0"),
        ("01M015", "01m015"),
        ("01M015", "1M015"),
        ("Straße", "STRASSE"),
        ("000", "0"),
        ("-07", "-7"),
        ("2013-01-01", "2013-01-01 00:00:00"),
        ("0.00001", "1e-05"),
        ("1e-05", "0.00001"),
        ("-2.5e-07", "-0.00000025"),
        ("0", "-0"),
        ("0", "-0.0"),
    ],
)
def test_a_key_is_found_in_another_case_and_with_other_zeros_in_front(key: str, text: str) -> None:
    assert place(["else", key, "other"], text) == 1


@pytest.mark.parametrize("text", ["1002", "0100", "10010", "1001x", "", "10.01", "1.001e3"])
def test_what_differs_in_more_than_that_is_outside(text: str) -> None:
    assert place(["01001"], text) == -1


def test_a_spelling_that_fits_two_keys_fits_none() -> None:
    assert place(["a", "A", "b"], "B") == 2
    assert place(["ab", "AB", "b"], "Ab") == -1
    assert place(["7", "07"], "007") == -1


def test_a_text_that_is_a_key_is_that_key_whatever_else_it_could_be() -> None:
    keys = ["7", "07", "a", "A"]
    assert [place(keys, key) for key in keys] == [0, 1, 2, 3]


@given(st.lists(st.text("aAbB01", min_size=1, max_size=3).map(normal_key), min_size=1, max_size=8, unique=True), st.data())
def test_what_a_text_means_depends_on_no_other_text(keys: list[str], data: st.DataObject) -> None:
    domain = KeyDomain.of("d", keys)
    texts = data.draw(st.lists(st.text("aAbB01", max_size=3), max_size=6))
    assert domain.places(texts).tolist() == [int(domain.places([text])[0]) for text in texts]


@given(st.text())
def test_folding_twice_changes_nothing_more(text: str) -> None:
    assert folded(folded(normal_key(text))) == folded(normal_key(text))
