"""Numbers, dates and amounts as people read them."""

from __future__ import annotations

import pytest

from saibot.report import format


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (12345.678, "12,346"),
        (1956, "1956"),  # as easily a year as a quantity
        (-9999.96, "−10,000"),
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
    assert format.with_error(12.34567, 0.0456, "minute") == "12.346 ± 0.046 (minute)"
    assert format.with_error(12345.67, 120) == "12,346 ± 120"
    assert format.with_error(2001.34, 0.5) == "2001.34 ± 0.50"
    assert format.with_error(None, 1.0) == "–"
    assert format.with_error(1.0, 0.0) == "1"


def test_little_does_not_read_as_none() -> None:
    assert format.percent(0.0004) == "0.04 %"
    assert format.percent(0) == "0 %"
    assert format.percent(0.123) == "12 %"


def test_dates_are_written_out_in_utc() -> None:
    assert format.day("2026-03-05") == "5 March 2026"
    assert format.minute("2026-03-05T15:03:09+01:00") == "5 March 2026, 14:03 UTC"


def test_amounts_are_told_as_people_tell_them() -> None:
    assert [format.plural(count, "join") for count in (0, 1, 1200)] == ["0 joins", "1 join", "1,200 joins"]
    assert format.plural(1, "sketch", "sketches") == "1 sketch" and format.plural(2, "sketch", "sketches") == "2 sketches"


def test_strangers_text_stays_on_its_line() -> None:
    assert format.plain_text("two\nlines\x1b[2J") == "two lines [2J"
    assert format.plain_text("x" * 30, most=10) == "x" * 10 + "…"


def test_what_rounds_to_nothing_has_no_sign() -> None:
    assert [format.fixed(value, 2) for value in (-0.001, 0.001, -0.006, None)] == ["0.00", "0.00", "−0.01", "–"]
    assert format.fixed(float("nan"), 2) == "nan"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("1", "1"),
        ("0.125", "0.125"),
        ("1.45468", "1.46"),  # never smaller than it is
        ("2.6", "2.6"),
        ("20", "20"),
        ("0.00123456", "0.00123456"),
        ("1000000", "1000000"),
        (None, "–"),
        ("as much as you like", "as much as you like"),  # a wish of a stranger's
    ],
)
def test_an_epsilon_is_short_and_never_told_smaller_than_it_is(value: str | None, shown: str) -> None:
    assert format.epsilon(value) == shown


def test_a_delta_reads_alike_however_it_was_written() -> None:
    assert [format.delta(text) for text in ("1e-6", "0.000001", "1E-06")] == ["10⁻⁶"] * 3
    assert [format.delta(text) for text in ("2e-6", "0", "0.01", None, "NaN", "1e999999")] == [
        *("2×10⁻⁶", "0", "0.01", "–", "NaN", "1e999999")
    ]


def test_no_line_begins_between_a_symbol_and_its_number() -> None:
    told = format.unbroken("12.3 ± 0.4 minute, ε = 1, δ 10⁻⁶ and 75 % of ± what")
    assert told == "12.3 ±\u00a00.4 minute, ε\u00a0=\u00a01, δ\u00a010⁻⁶ and 75\u00a0% of ± what"
