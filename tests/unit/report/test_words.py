"""What a release protects, in sentences."""

from __future__ import annotations

from saibot.report import words


def _said(**changes: object) -> words.Protection:
    facts: dict[str, object] = {
        "budget": {"epsilon": "1", "delta": "1e-6"},
        "neighbours": "replace-one",
        "individual": "one flight",
    }
    return words.protection(**(facts | changes))  # type: ignore[arg-type]


def test_the_promise_names_the_factor_the_individual_and_the_chance() -> None:
    promise = _said().promise
    assert "2.7 times" in promise and "one flight" in promise and "10⁻⁶" in promise


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


def test_a_plan_is_told_block_by_block_with_blanks_where_a_number_has_no_meaning() -> None:
    blocks = [
        {"scope": "key", "level": 0, "order": 0, "sensitivity": 1.0, "sigma": 9.451},
        {
            "scope": "global",
            "level": 0,
            "order": 2,
            "sensitivity": 2.0,
            "sigma": 1e-7,
            "sigma_offdiagonal": 0.5,
            "centred": True,
        },
    ]
    assert words.plan_rows({"blocks": blocks}) == [
        ["per key", "counts", "1", "9.451", "–"],
        ["whole table", "sums of products, around the mean", "2", "1×10⁻⁷", "0.5"],
    ]
    assert all(len(row) == len(words.PLAN_HEADS) for row in words.plan_rows({"blocks": blocks}))


def test_a_preview_tells_what_it_knows_and_leaves_out_what_it_does_not() -> None:
    unknown = ("deviation_error", "rows_per_key", "value_error", "rows_for_half", "detectable_gain")
    preview = {"mean_error": 0.048, **dict.fromkeys(unknown)}
    assert words.preview_rows(preview) == [["error of a feature's overall mean", "± 4.8 %"]]
    told = words.preview_rows(preview | {"mean_error": 0.00083, "rows_per_key": 274.2})
    assert told == [["error of a feature's overall mean", "± 0.083 %"], ["rows per key", "274"]]


def test_the_total_of_an_account_is_never_taken_for_a_part_of_one_sketch() -> None:
    one = {"epsilon": "0.5", "delta": "1e-6"}
    assert words.account_total(one, {"epsilon": "0.50", "delta": "0.000001"}) == "", "a single sketch is its own total"
    assert words.account_total(one, {"epsilon": "1.4512", "delta": "1e-6"}).endswith("together: ε 1.46, δ 10⁻⁶")
    less = words.account_total(one, {"epsilon": "0.44", "delta": "1e-5"})
    assert "ε 0.44 at another δ, 10⁻⁵" in less and "the larger δ, the smaller ε" in less
