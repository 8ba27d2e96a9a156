"""Numbers and sentences as people read them."""

from __future__ import annotations

import pytest

from saibot.platform.pages import format, words


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (12345.678, "12,346"),
        (0.12345, "0.1235"),
        (-3.5, "−3.5"),
        (1e-7, "1×10⁻⁷"),
        (2.5e12, "2.5×10¹²"),
        (None, "–"),
    ],
)
def test_numbers_keep_their_digits_and_no_more(value: float | None, shown: str) -> None:
    assert format.number(value) == shown


def test_an_error_decides_how_many_digits_its_value_has() -> None:
    assert format.with_error(12.34567, 0.0456, "minute") == "12.346 ± 0.046 minute"
    assert format.with_error(12345.67, 120) == "12,346 ± 120"
    assert format.with_error(None, 1.0) == "–"
    assert format.with_error(1.0, 0.0) == "1"


def test_little_does_not_read_as_none() -> None:
    assert format.percent(0.0004) == "0.04 %"
    assert format.percent(0) == "0 %"
    assert format.percent(0.123) == "12 %"


def test_dates_are_written_out_in_utc() -> None:
    assert format.day("2026-03-05") == "5 March 2026"
    assert format.minute("2026-03-05T15:03:09+01:00") == "5 March 2026, 14:03 UTC"


def _said(**changes: object) -> words.Protection:
    facts: dict[str, object] = {
        "budget": {"epsilon": "1", "delta": "1e-6"},
        "neighbours": "replace-one",
        "individual": "one flight",
    }
    return words.protection(**(facts | changes))  # type: ignore[arg-type]


def test_the_promise_names_the_factor_the_individual_and_the_chance() -> None:
    promise = _said().promise
    assert "2.7 times" in promise and "one flight" in promise and "1×10⁻⁶" in promise


def test_the_row_count_is_public_under_one_relation_and_protected_under_the_other() -> None:
    replace, add = _said(), _said(neighbours="add-remove")
    assert any("number of rows" in line for line in replace.not_protected)
    assert not any("number of rows" in line for line in add.not_protected)
    assert any("how many rows" in line for line in add.protected)
    assert "not been in the table" in add.promise


def test_pure_privacy_has_no_exception() -> None:
    assert "chance" not in _said(budget={"epsilon": "0.5", "delta": "0"}).promise


def test_a_table_prepared_without_paying_is_called_not_private() -> None:
    assert "not private" in _said(preparation="nonprivate").not_protected[0]


def test_several_rows_per_individual_are_said() -> None:
    said = _said(rows_per_individual=3)
    assert any("up to 3" in line for line in said.protected)
    assert any("more than 3" in line for line in said.not_protected)
