"""Budgets are exact decimals: they neither drift, nor round up, nor accept a number that is not one."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from saibot.errors import InvalidBudget, InvalidInput
from saibot.privacy.budget import Budget, exact_decimal, plain

digits = st.integers(1, 10**30 - 1)


@st.composite
def numbers(draw: st.DrawFn, *, largest_power: int = 30) -> Decimal:
    """Any positive decimal that a budget accepts: up to 30 digits, between 1e-30 and 1e30."""
    mantissa = str(draw(digits))
    exponent = draw(st.integers(-30, largest_power)) - (len(mantissa) - 1)
    return Decimal(f"{mantissa}e{exponent}")


def fractions_below_one() -> st.SearchStrategy[Decimal]:
    return numbers(largest_power=-1)


epsilons = st.decimals("1e-6", 1000, places=6)
deltas = st.one_of(st.just(Decimal(0)), st.decimals("1e-12", "0.4", places=12))


# ------------------------------------------------------------------------------------------------ exactness


def test_a_tenth_ten_times_is_one():
    total = Budget("0.1", "1e-7")
    for _ in range(9):
        total += Budget("0.1", "1e-7")
    assert total == Budget("1", "1e-6")
    assert (total.epsilon, total.delta) == (Decimal(1), Decimal("0.000001"))


def test_the_same_sum_in_floats_drifts_so_the_test_above_can_fail():
    assert sum([0.1] * 10) != 1


@given(st.lists(st.tuples(epsilons, st.decimals("1e-12", "0.01", places=12)), min_size=1, max_size=20))
def test_sums_of_budgets_equal_sums_of_fractions(parts: list[tuple[Decimal, Decimal]]):
    total = Budget(*parts[0])
    for part in parts[1:]:
        total += Budget(*part)
    assert Fraction(total.epsilon) == sum(Fraction(e) for e, _ in parts)
    assert Fraction(total.delta) == sum(Fraction(d) for _, d in parts)


def test_a_sum_that_needs_more_digits_than_a_budget_has_is_refused_and_not_rounded():
    for tiny in ("1e-30", "1.00000000000000000000000000001e-30"):
        with pytest.raises(InvalidBudget, match="30 digits"):
            Budget("1e30") + Budget(tiny)


@pytest.mark.parametrize("one, other", [("1", "1.0"), ("1e-1", "0.10"), ("100", "1e2"), (1, "1"), (Decimal("2.50"), "2.5")])
def test_equal_numbers_are_equal_budgets_however_they_are_written(one: str | int | Decimal, other: str):
    assert Budget(one) == Budget(other) and hash(Budget(one)) == hash(Budget(other))


def test_a_budget_cannot_be_changed():
    with pytest.raises(AttributeError):
        Budget("1").epsilon = Decimal(2)  # type: ignore[misc]


# ------------------------------------------------------------------------------------------------ parts of a budget


@given(numbers(), fractions_below_one(), st.integers(1, 1000))
@example(Decimal("1"), Decimal("1.99999999999999999999999999999e-30"), 2)
@example(Decimal("1.99999999999999999999999999999e-30"), Decimal("0.999999999999999999999999999999"), 2)
def test_the_parts_of_a_split_never_exceed_the_whole(epsilon: Decimal, delta: Decimal, parts: int):
    try:
        part = Budget(epsilon, delta).split(parts)
    except InvalidBudget:  # a part too small to be a budget of its own
        # In fractions: Decimal's own division would round 0.999...e-30 up to 1.000...e-30.
        assert min(Fraction(epsilon), Fraction(delta)) / parts < Fraction(1, 10**30)
        return
    for whole, each in ((epsilon, part.epsilon), (delta, part.delta)):
        assert parts * Fraction(each) <= Fraction(whole)
        assert parts * Fraction(each) > Fraction(whole) * (1 - Fraction(1, 10**29))


def test_rounding_to_nearest_would_exceed_the_whole_so_the_test_above_can_fail():
    nearest = Decimal(2) / 3  # Python's default context rounds to nearest
    assert 3 * Fraction(nearest) > 2
    assert 3 * Fraction(Budget("2").split(3).epsilon) <= 2


@given(epsilons, deltas, st.decimals("0.001", "0.999", places=28))
def test_a_share_and_its_complement_never_exceed_the_whole(epsilon: Decimal, delta: Decimal, fraction: Decimal):
    whole = Budget(epsilon, delta)
    one, other = whole.share(fraction), whole.share(1 - fraction)
    assert Fraction(one.epsilon) + Fraction(other.epsilon) <= Fraction(epsilon)
    assert Fraction(one.delta) + Fraction(other.delta) <= Fraction(delta)
    assert one.epsilon == pytest.approx(epsilon * fraction, rel=Decimal("1e-20"))


def test_the_whole_share_is_the_budget_itself():
    budget = Budget("0.333333333333333333333333333333", "1e-6")
    assert budget.share("1") == budget and budget.split(1) == budget


@pytest.mark.parametrize("fraction", ["0", "-0.5", "1.0000001", "nan"])
def test_a_share_outside_zero_to_one_is_refused(fraction: str):
    with pytest.raises(InvalidBudget, match="share"):
        Budget("1").share(fraction)


@pytest.mark.parametrize("parts", [0, -1])
def test_a_budget_splits_into_at_least_one_part(parts: int):
    with pytest.raises(InvalidBudget, match="at least one part"):
        Budget("1").split(parts)


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("value", [0.1, 1.0, float("nan"), True, None, [1], b"1"])
def test_floats_and_other_types_are_refused_because_a_tenth_is_not_the_float_nearest_to_it(value: object):
    with pytest.raises(InvalidBudget, match="decimal string"):
        Budget(value)  # type: ignore[arg-type]
    with pytest.raises(InvalidBudget, match="decimal string"):
        Budget("1", value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["nan", "sNaN", "inf", "-inf", "Infinity", Decimal("NaN"), Decimal("-Infinity")])
def test_what_is_not_finite_is_refused(value: str | Decimal):
    for attempt in (lambda: Budget(value), lambda: Budget("1", value), lambda: exact_decimal(value, name="bound")):
        with pytest.raises(InvalidBudget, match="must be finite"):
            attempt()


@pytest.mark.parametrize("value", ["", " ", "one", "1,5", "0x10", "1e", "--1", "1e9999999999999999999999"])
def test_what_is_not_a_number_is_refused(value: str):
    with pytest.raises(InvalidBudget, match="must be a decimal number"):
        Budget(value)


@pytest.mark.parametrize("value", ["1e31", "1e1000000", "1e-31", "1e-1000000", "0." + "1" * 31, 10**31, "1." + "0" * 40])
def test_huge_tiny_and_endless_numbers_are_refused(value: str | int):
    with pytest.raises(InvalidBudget, match="between 1e-30 and 1e30"):
        Budget(value)


@pytest.mark.parametrize("epsilon", ["0", "-0", "-1", "0e50", "-1e-30"])
def test_epsilon_must_be_greater_than_zero(epsilon: str):
    with pytest.raises(InvalidBudget, match="epsilon must be greater than 0"):
        Budget(epsilon, "1e-6")


@pytest.mark.parametrize("delta", ["1", "1.5", "-1e-6", "2e5"])
def test_delta_must_be_at_least_zero_and_less_than_one(delta: str):
    with pytest.raises(InvalidBudget, match="delta must be at least 0 and less than 1"):
        Budget("1", delta)


def test_two_deltas_that_sum_to_one_are_refused():
    with pytest.raises(InvalidBudget, match="less than 1"):
        Budget("1", "0.5") + Budget("1", "0.5")


def test_the_smallest_and_largest_budgets_are_accepted():
    assert Budget("1e-30", "1e-30").epsilon == Decimal("1e-30")
    assert Budget("1e30", "0.999999").delta == Decimal("0.999999")


def test_an_invalid_budget_is_an_invalid_input_and_names_the_part_at_fault():
    with pytest.raises(InvalidInput, match=r"^delta "):
        Budget("1", "x")
    with pytest.raises(InvalidInput, match=r"^epsilon "):
        Budget("x", "0")


def test_only_a_delta_of_zero_is_pure():
    assert Budget("1").pure and Budget("1", "0.0").pure and Budget("1", "-0").pure
    assert not Budget("1", "1e-30").pure


# ------------------------------------------------------------------------------------------------ one number, one spelling


@pytest.mark.parametrize(
    "number, spelling",
    [
        ("1", "1"),
        ("1.0", "1"),
        ("1e0", "1"),
        ("100", "100"),
        ("1e2", "100"),
        ("0.250", "0.25"),
        ("0.00001", "0.00001"),
        ("0.000001", "1e-6"),
        ("1.50e-6", "1.5e-6"),
        ("1e15", "1000000000000000"),
        ("1e16", "1e16"),
        ("12.30e16", "1.23e17"),
        ("-2.0", "-2"),
        ("-2e-9", "-2e-9"),
        ("0.000", "0"),
        ("-0", "0"),
        ("0e7", "0"),
    ],
)
def test_a_number_is_spelled_the_usual_way(number: str, spelling: str):
    assert plain(Decimal(number)) == spelling


@given(numbers())
def test_the_spelling_reads_back_as_the_same_number(number: Decimal):
    assert Decimal(plain(number)) == number
    assert exact_decimal(plain(number), name="x") == number


@given(numbers(), st.integers(0, 20))
def test_one_number_has_one_spelling_however_many_zeros_it_was_written_with(number: Decimal, zeros: int):
    sign, digits_of, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    padded = Decimal((sign, digits_of + (0,) * zeros, exponent - zeros))
    assert padded == number and plain(padded) == plain(number)


@given(numbers(), numbers())
def test_different_numbers_have_different_spellings(one: Decimal, other: Decimal):
    assert (plain(one) == plain(other)) == (one == other)


@given(numbers(), st.one_of(st.just(Decimal(0)), fractions_below_one()))
def test_a_budget_survives_json(epsilon: Decimal, delta: Decimal):
    budget = Budget(epsilon, delta)
    document = json.loads(json.dumps(budget.to_json()))
    assert all(isinstance(value, str) for value in document.values())
    assert Budget(**document) == budget


def test_a_budget_reads_as_people_write_it():
    assert str(Budget("0.50", "0.000001")) == "ε=0.5, δ=1e-6"
