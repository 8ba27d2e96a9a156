"""Defects that a release once had, put back one by one: the audit sees each of them.

Each is a small patch of the function that mended it. Where the audit no longer sees one, it has gone blind, or the patch no
longer brings the defect back.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import ibis
import pytest

from saibot.audit import promises
from saibot.audit.cases import Case, random_case
from saibot.audit.comparing import tried
from saibot.audit.promises import template, wire
from saibot.domains import spelling
from saibot.privacy import ledger as ledgers
from saibot.privacy.ledger import Ledger
from saibot.privatize import aggregate, cells, checking, doubts, grid, key_search, read
from saibot.privatize.card import Card

SEED = 7
privatize = import_module("saibot.privatize.privatize")  # the package gives a function this name


def beyond(source: str, fits: Callable[[Case], bool], *, first: int = 100) -> list[str]:
    """What the audit finds in one form of table among forty cases that fit, from the given one on."""
    found: list[str] = []
    number = first
    for _ in range(40):
        while not fits(random_case(SEED, number)):
            number += 1
        found += [f"{entry.kind}: {entry.said}" for entry in tried(SEED, number, (source,)).broken]
        if found:
            break
        number += 1
    return found


def has(*kinds: str, id: bool = False) -> Callable[[Case], bool]:
    def fits(case: Case) -> bool:
        names = {kind.name for kind in case.columns.values()}
        return set(kinds) <= names and ("id" in case.columns) == id and "component" not in case.card

    return fits


def broken(check: str) -> str:
    return "; ".join(verdict.broken for verdict in promises.CHECKS[check]() if verdict.broken)


# ------------------------------------------------------------------------------------------------ 1, 2: what a cell means


def levels_are_compared_as_the_column_spells_them(patch: pytest.MonkeyPatch) -> None:
    """1 is not 1.0: a missing cell, a half or a time of one person respells everybody's cells."""
    patch.setattr(grid, "is_level", lambda cell, level, levels: (cell.cast("string") == level).fill_null(False))


def keys_are_spelled_with_the_scale_of_their_column(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        aggregate, "texts_of", lambda values: ["" if value is None else str(value) for value in values.to_pylist()]
    )


def frames_are_read_with_one_type_for_all_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(read, "is_frame", lambda table: False)


@pytest.mark.parametrize("source", ["pandas", "parquet by pandas", "csv by pandas", "pandas categories"])
def test_a_missing_cell_that_respells_a_column_of_whole_numbers_is_seen(source, monkeypatch):
    levels_are_compared_as_the_column_spells_them(monkeypatch)
    assert beyond(source, has("int levels"))


def test_a_time_that_respells_a_column_of_dates_is_seen(monkeypatch):
    levels_are_compared_as_the_column_spells_them(monkeypatch)
    assert beyond("csv by pandas, times", has("date levels"))


@pytest.mark.parametrize("source", ["parquet by arrow", "duckdb table", "parquet by polars"])
def test_a_decimal_that_gives_its_scale_to_other_peoples_keys_is_seen(source, monkeypatch):
    keys_are_spelled_with_the_scale_of_their_column(monkeypatch)
    assert beyond(source, has("decimal keys"))


def test_objects_of_other_kinds_that_refuse_a_whole_frame_are_seen(monkeypatch):
    frames_are_read_with_one_type_for_all_rows(monkeypatch)
    found = beyond("pandas objects", has("int levels"))
    assert any("refusal differs" in said for said in found)


# ------------------------------------------------------------------------------------------------ 3: which rows are kept


def rows_are_kept_in_the_order_of_their_columns_text(patch: pytest.MonkeyPatch) -> None:
    """Types of text files are guessed from all rows, and the order of rows follows from how a type spells its cells."""
    opened = read.open_table
    patch.setattr(checking, "open_table", lambda table, **options: opened(table, inferred=True, **options))

    def kept_rows(rows: Any) -> Any:
        table = rows.source.table
        if rows.id_column is None:
            return table
        names = [column.column for column in rows.columns] + [part.column for part in rows.key_parts]
        order = [table[name].cast("string") for name in dict.fromkeys(names)]
        number = ibis.row_number().over(ibis.window(group_by=table[rows.id_column], order_by=order))
        numbered = table.filter(table[rows.id_column].notnull()).mutate(row_of_individual=number)
        return numbered.filter(numbered.row_of_individual < rows.rows_per_individual)

    patch.setattr(aggregate, "kept_rows", kept_rows)


def test_rows_that_are_kept_by_the_text_of_an_inferred_type_are_seen(monkeypatch):
    rows_are_kept_in_the_order_of_their_columns_text(monkeypatch)
    assert beyond("csv", has("int", id=True), first=430)


# ------------------------------------------------------------------------------------------------ floats that became texts


def ids_are_as_their_column_holds_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(aggregate, "individual_in", lambda cell: cell)


def a_nan_that_is_a_text_is_a_word(patch: pytest.MonkeyPatch) -> None:
    comparable = aggregate.comparable_text

    def spelled(cell: Any) -> Any:
        if not cell.type().is_string():
            return comparable(cell)
        return ibis.ifelse(cell.strip().lower() == "nan", ibis.literal("NaN"), comparable(cell))

    patch.setattr(aggregate, "comparable_text", spelled)


def nan_is_a_key_that_can_be_found(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(key_search, "is_key", lambda text: bool(text))


def small_numbers_are_spelled_in_one_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(spelling, "_small", lambda key: "")
    cells._spellings.cache_clear()


def finds_keys(case: Case) -> bool:
    return has("float keys")(case) and "find" in case.card["keys"].get("k0", {}).get("domain", {})


@pytest.mark.parametrize(
    "defect, fits",
    [
        (ids_are_as_their_column_holds_them, has("float ids", id=True)),
        (a_nan_that_is_a_text_is_a_word, has("floats with gaps", id=True)),
        (nan_is_a_key_that_can_be_found, finds_keys),
        (small_numbers_are_spelled_in_one_way, has("float keys")),
        (small_numbers_are_spelled_in_one_way, has("float levels")),
    ],
)
def test_a_word_that_respells_a_column_of_floats_is_seen(defect, fits, monkeypatch):
    defect(monkeypatch)
    assert beyond("polars", fits)


@pytest.fixture(autouse=True)
def spellings_as_they_are():
    yield
    cells._spellings.cache_clear()


# ------------------------------------------------------------------------------------------------ 4: what a repeat tells


def the_edition_counts_changes_of_the_table(patch: pytest.MonkeyPatch) -> None:
    admit = Ledger._admit

    def counting(self: Ledger, db: Any, charge: Any, *pending: Any) -> int:
        admit(self, db, charge, *pending)
        row = db.execute(
            "SELECT source, edition FROM charge WHERE dataset = ? ORDER BY id DESC LIMIT 1", (charge.dataset,)
        ).fetchone()
        return 1 if row is None else int(row[1]) + (bytes(row[0]) != charge.source)

    patch.setattr(Ledger, "_admit", counting)


def a_repeat_is_refused_where_the_table_has_changed(patch: pytest.MonkeyPatch) -> None:
    since_then = privatize._since_then

    def refusing(*arguments: Any) -> tuple[str, ...]:
        notes = since_then(*arguments)
        if notes:
            raise ledgers.LedgerConflict("the table has changed.")
        return notes

    patch.setattr(privatize, "_since_then", refusing)


def test_an_edition_that_counts_changes_is_seen(monkeypatch):
    the_edition_counts_changes_of_the_table(monkeypatch)
    assert "unchanged" in broken("replay")


def test_a_repeat_that_is_refused_when_the_table_changed_is_seen(monkeypatch):
    a_repeat_is_refused_where_the_table_has_changed(monkeypatch)
    assert "LedgerConflict" in broken("replay")


# ------------------------------------------------------------------------------------------------ 5, 6, 7: one account


def parts_have_an_account_of_their_own(patch: pytest.MonkeyPatch) -> None:
    with_account = Card.for_request

    def for_request(self: Card, part: Any) -> Card:
        card = with_account(self, part)
        return card.model_copy(update={"dataset": card.dataset.model_copy(update={"account": None})})

    patch.setattr(Card, "for_request", for_request)


def known_rows_are_passed_over_in_silence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(doubts, "_known_individuals", lambda *arguments: [])


def any_unit_of_privacy_enters_any_account(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledgers, "_check_terms", lambda *arguments: None)


def test_parts_with_caps_of_their_own_are_seen(monkeypatch):
    parts_have_an_account_of_their_own(monkeypatch)
    assert "although" in broken("split accounting")


def test_known_rows_that_get_a_second_cap_in_silence_are_seen(monkeypatch):
    known_rows_are_passed_over_in_silence(monkeypatch)
    assert "nothing was said" in broken("known rows")


def test_a_release_by_row_in_an_account_of_individuals_is_seen(monkeypatch):
    any_unit_of_privacy_enters_any_account(monkeypatch)
    assert "by row" in broken("unit of privacy")


# ------------------------------------------------------------------------------------------------ 8, 9: the wire


def chosen_values_are_asked_of_the_platform(patch: pytest.MonkeyPatch) -> None:
    """A result of a search at home looks its values up with the platform, which hears which dataset was chosen."""
    from saibot.client import requester

    made = requester.Augmented

    class Asking(made):  # type: ignore[valid-type, misc]
        def __init__(self, document: Any, source: Any = None, request: Any = None) -> None:
            super().__init__(document, Asking.published, request)

        published: Any = None

    at_home = requester.Requester.search_at_home

    def search_at_home(self: Any, *arguments: Any, **options: Any) -> Any:
        Asking.published = self.published
        patch.setattr(self.published.cache, "has", lambda digest: False, raising=False)
        return at_home(self, *arguments, **options)

    patch.setattr(requester, "Augmented", Asking)
    patch.setattr(requester.Requester, "search_at_home", search_at_home)


def sketches_are_sent_before_they_are_judged(patch: pytest.MonkeyPatch) -> None:
    from saibot.client import provider, requester

    for module in (provider, requester):
        patch.setattr(module, "check_may_leave", lambda sketch: None)


def test_a_requester_that_asks_for_what_it_chose_is_seen(monkeypatch):
    chosen_values_are_asked_of_the_platform(monkeypatch)
    assert "calls differ" in broken("wire")


def test_nonprivate_sketches_that_are_sent_are_seen(monkeypatch):
    sketches_are_sent_before_they_are_judged(monkeypatch)
    assert "was sent" in broken("wire")


# ------------------------------------------------------------------------------------------------ 10: a card's template


def the_first_line_is_taken_for_names(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(template, "card_template", lambda table: table.read_text(encoding="utf-8").split("\n")[0])


def test_a_template_with_cells_of_the_first_row_is_seen(monkeypatch):
    the_first_line_is_taken_for_names(monkeypatch)
    assert "cells of the first row" in broken("template")


def test_the_wire_is_watched_at_all():
    """A recorder that hears nothing would find every client silent."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder, wire._platform(Path(folder)) as (admin, recorder):
        list(admin.datasets())
        assert recorder.calls == ["GET /v1/datasets"]
