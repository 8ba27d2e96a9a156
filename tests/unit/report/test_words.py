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
