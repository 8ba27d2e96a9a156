"""Bad input gets one line without a cell of the table, and changes nothing."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pytest

from saibot.errors import (
    BudgetExceeded,
    InvalidBudget,
    InvalidCard,
    InvalidDomain,
    InvalidInput,
    InvalidTable,
    SaibotError,
    UnsupportedPlan,
)
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize.noise import OpenDPNoise
from saibot.sketch import read_sketch
from tests.support.releases import CANARY, CANARY_NUMBER, Fails, Interrupted, books, card, release, rows


def with_text(column: str) -> pd.DataFrame:
    table = rows()
    table[column] = table[column].astype(object)
    table.loc[7, column] = CANARY
    return table


def csv_with(text: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "rows.csv").write_text(text, encoding="utf-8")
        return folder / "rows.csv"

    return make


Table = Callable[[Path], Any]
NUMERIC = {"features": ("x", "y")}
HOPELESS: dict[str, tuple[type[SaibotError], str, Table, dict[str, Any]]] = {
    "unknown column": (InvalidTable, "no column 'x'.* It has y, o, key", lambda _: rows().drop(columns="x"), {}),
    "unknown key column": (InvalidTable, "no column 'key'", lambda _: rows().drop(columns="key"), {}),
    "unknown feature": (InvalidCard, "no feature 'w'", lambda _: rows(), {"features": ("w",)}),
    "unknown key": (InvalidCard, "no key 'w'", lambda _: rows(), {"key": "w"}),
    "dates in a numeric column": (
        InvalidTable,
        "'x' needs numbers",
        lambda _: rows().assign(x=pd.Timestamp("1999-04-07")),
        NUMERIC,
    ),
    "a query that fails on a cell": (
        InvalidTable,
        "cannot be read",
        lambda _: ibis.memtable(with_text("o")[["x", "y", "key", "o"]]).mutate(x=ibis._.o.cast("float64")),
        NUMERIC,
    ),
    "a ragged file": (InvalidTable, "cannot be read", csv_with(f"x,y,key\n1,2,a\n1,2,a,{CANARY}\n"), NUMERIC),
    "no such file": (InvalidTable, "no table", lambda folder: folder / "gone.csv", {}),
    "an empty table": (InvalidTable, "no rows", lambda _: rows()[:0], {}),
    "an empty table, local": (InvalidTable, "no rows", lambda _: rows()[:0], {"model": "local"}),
    "an empty table, paper": (InvalidTable, "no rows", lambda _: rows()[:0], NUMERIC | {"paper_preparation": True}),
    "key domain missing": (InvalidDomain, "gone.csv is missing", lambda _: rows(), {"key": "gone"}),
    "classical with epsilon > 1": (
        UnsupportedPlan,
        "epsilon <= 1 only",
        lambda _: rows(),
        {"mechanism": "fpm", "budget": Budget("1.5", "1e-6")},
    ),
    "classical joint": (UnsupportedPlan, "analytically", lambda _: rows(), {"calibration": "classical"}),
    "an unknown mechanism": (
        UnsupportedPlan,
        "'magic' is not known",
        lambda _: rows(),
        {"mechanism": "magic", "layout": "join"},
    ),
    "an unknown layout": (UnsupportedPlan, "'magic' does not go", lambda _: rows(), {"layout": "magic"}),
    "order 0": (UnsupportedPlan, "order", lambda _: rows(), {"order": 0, "layout": "semiring"}),
    "lookup of order 3": (UnsupportedPlan, "order is 2", lambda _: rows(), {"order": 3}),
    "bound 0": (InvalidInput, "greater than 0", lambda _: rows(), {"bound": Decimal(0)}),
    "bound below 0": (InvalidInput, "greater than 0", lambda _: rows(), {"bound": Decimal(-1)}),
    "bound not finite": (InvalidInput, "greater than 0", lambda _: rows(), {"bound": Decimal("NaN")}),
    "a union with a key": (InvalidInput, "needs no key", lambda _: rows(), {"layout": "union"}),
    "a join without a key": (InvalidInput, "needs a key", lambda _: rows(), {"layout": "lookup", "key": None}),
    "add-remove without max_rows": (InvalidInput, "max_rows", lambda _: rows(), {"neighbours": Neighbours.ADD_REMOVE}),
    "budget exceeded": (
        BudgetExceeded,
        "asks for ε=3.*ε=2 at δ=1e-6 is left",
        lambda _: rows(),
        {"budget": Budget("3", "1e-6")},
    ),
    "delta exceeded": (BudgetExceeded, "is left of its cap", lambda _: rows(), {"budget": Budget("2", "1e-3")}),
    "not a table": (InvalidTable, "is no table", lambda _: CANARY_NUMBER, {}),
}


@pytest.mark.parametrize("kind, rule, table, options", HOPELESS.values(), ids=HOPELESS)
def test_bad_input_gets_one_line_without_a_cell_and_changes_nothing(
    ledger: Ledger,
    tmp_path: Path,
    kind: type[SaibotError],
    rule: str,
    table: Table,
    options: dict[str, Any],
) -> None:
    release(rows(5), ledger, card=card(dataset={"name": "another"}))
    before, kept = books(ledger), sorted((ledger.home / "sketches").iterdir())
    with pytest.raises(kind, match=rule) as caught:
        release(table(tmp_path), ledger, noise=Fails(ledger, AssertionError), **options)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400
    for secret in (CANARY, "4711", str(CANARY_NUMBER), "1999"):
        assert secret not in message
    assert books(ledger) == before and sorted((ledger.home / "sketches").iterdir()) == kept


def test_the_canary_would_have_been_seen() -> None:
    """The engine's own message quotes the cell; that is why it is replaced."""
    with pytest.raises(Exception, match=CANARY):
        ibis.duckdb.connect().sql(f"SELECT '{CANARY}'::DOUBLE AS x").execute()


@pytest.mark.parametrize(
    "epsilon, delta", [("0", "1e-6"), ("-1", "0"), ("1", "1"), ("1", "-1e-9"), ("NaN", "0"), ("a", "0")]
)
def test_a_budget_that_means_nothing_is_refused(epsilon: str, delta: str) -> None:
    with pytest.raises(InvalidBudget) as caught:
        Budget(epsilon, delta)
    assert "\n" not in str(caught.value)


def test_bounds_upside_down_are_refused_with_their_place() -> None:
    with pytest.raises(InvalidCard, match=r"\[features.x\].*upside down"):
        card(features={"x": {"bounds": [10, 0]}})


def test_what_is_left_is_told_and_can_be_spent_to_the_last(ledger: Ledger) -> None:
    release(rows(), ledger, budget=Budget("1", "1e-6"))
    before = books(ledger)
    with pytest.raises(BudgetExceeded) as caught:
        release(rows(), ledger, budget=Budget("2", "1e-6"), features=("x",))
    assert "asks for ε=2, δ=1e-6" in str(caught.value) and "Lower --epsilon" in str(caught.value)
    assert books(ledger) == before
    # Gaussian releases compose better than their epsilons add up: more than 1 is left of 2.
    account = ledger.account("t")
    assert account is not None and account.left_epsilon < 1.0001
    release(rows(), ledger, budget=Budget("1", "1e-6"), features=("x",))


@pytest.mark.fault
def test_ctrl_c_while_the_table_is_read_costs_nothing(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise Interrupted

    monkeypatch.setattr(importlib.import_module("saibot.privatize.privatize"), "aggregate", interrupted)
    with pytest.raises(Interrupted):
        release(rows(), ledger)
    assert books(ledger) == []


def test_under_add_remove_an_empty_table_is_as_good_as_any(ledger: Ledger) -> None:
    more = card(dataset={"name": "t", "max_rows": 1000})
    released = release(rows()[:0], ledger, card=more, neighbours=Neighbours.ADD_REMOVE)
    assert released.sketch.header.rows is None and (released.sketch.levels[0].values != 0).all()


def test_real_noise_is_the_default(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    original = OpenDPNoise.gaussian

    def watched(self: OpenDPNoise, *args: Any) -> np.ndarray:
        called.append(True)
        return original(self, *args)

    monkeypatch.setattr(OpenDPNoise, "gaussian", watched)
    assert not release(rows(), ledger).sketch.header.simulation and called


def test_the_order_of_a_release_is_kept_up_to_six(ledger: Ledger) -> None:
    for order in (1, 3, 6):
        released = release(rows(), ledger, order=order, layout="semiring", features=("x", "y"), budget=Budget("0.2", "1e-8"))
        assert released.sketch.key_basis.size == math.comb(2 + order, order)
        read_sketch(released.content)
