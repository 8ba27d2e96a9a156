"""From a table to a sketch: what is promised about the order of things, repeats, versions and bad input."""

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
import polars as pl
import pytest

from saibot.errors import (
    BudgetExceeded,
    InvalidBudget,
    InvalidCard,
    InvalidDomain,
    InvalidInput,
    InvalidTable,
    LedgerConflict,
    SaibotError,
    UnsupportedPlan,
)
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, Released, ReleaseRequest, prepare, privatize
from saibot.privatize.charging import sketch_path
from saibot.privatize.noise import NoiseSource, OpenDPNoise
from saibot.privatize.request import describe
from saibot.sketch import read_sketch

CANARY, CANARY_NUMBER = "SECRET-4711", 987654321
CARD: dict[str, Any] = {
    "dataset": {"name": "t", "title": "a title", "description": "words", "individual": "one row"},
    "budget": {"cap": {"epsilon": "2", "delta": "1e-6"}},
    "features": {"x": {"bounds": [0, 10], "unit": "m"}, "y": {"bounds": [0, 10]}, "o": {"levels": ["a", "b"]}},
    "keys": {
        "k": {"column": "key", "domain": {"values": ["a", "b", "c"], "id": "abc", "version": 3}},
        "day": {"domain": {"dates": ["2013-01-30", "2013-02-02"]}, "levels": ["month"]},
        "kd": {"parts": ["k", "day"]},
        "gone": {"domain": {"file": "gone.csv", "id": "gone"}},
    },
}


def card(**changes: Any) -> Card:
    return Card.parse(CARD | changes)


def rows(n: int = 60, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "x": rng.uniform(0, 10, n),
            "y": rng.uniform(0, 10, n),
            "o": rng.choice(["a", "b", CANARY], n),
            "key": rng.choice(["a", "b", CANARY], n),
            "day": rng.choice(["2013-01-30", "2013-02-01", "1999-01-01"], n),
            "number": CANARY_NUMBER,
        }
    )


def request(**options: Any) -> ReleaseRequest:
    terms = {"card": card(), "budget": Budget("0.5", "1e-7"), "neighbours": Neighbours.REPLACE_ONE, "key": "k"} | options
    if terms.get("mechanism", "joint") == "joint":
        terms.setdefault("allocation", "equal")
    return ReleaseRequest(**terms)


def release(table: Any, ledger: Ledger, noise: NoiseSource | None = None, **options: Any) -> Released:
    return privatize(table, request(**options), ledger, noise=noise)


def books(ledger: Ledger) -> list[dict[str, Any]]:
    return [account.to_json() for account in ledger.accounts()]


# ------------------------------------------------------------------------------------------------ what comes out


def test_a_sketch_says_all_that_is_public_and_its_file_is_kept(ledger: Ledger) -> None:
    released = release(rows(), ledger)
    header = released.sketch.header
    assert header.dataset.name == "t" and header.dataset.title == "a title" and header.edition == 1
    assert [f.name for f in header.features] == ["x", "y", "o=a", "o=b"] and header.features[0].unit == "m"
    assert header.key is not None and header.key.name == "k"
    part = header.key.parts[0]
    assert (part.name, part.domain, part.version, part.size) == ("k", "abc", 3, 3)
    assert header.budget == {"epsilon": "0.5", "delta": "1e-7"} and header.neighbours is Neighbours.REPLACE_ONE
    assert header.rows == 60 and header.bound_squared == "3" and header.model == "central"
    assert not header.simulation and header.assumptions.noise == "exact-integer" and header.preparation.kind == "public"
    assert header.assumptions.key_domain_public and header.assumptions.rows_per_individual == 1
    assert read_sketch(released.content).digest == released.sketch.digest == released.entry.digest
    assert sketch_path(ledger, released.sketch.digest).read_bytes() == released.content


def test_nothing_that_is_in_no_card_gets_into_the_file(ledger: Ledger) -> None:
    content = release(rows(), ledger).content
    for secret in (CANARY, str(CANARY_NUMBER), "1999-01-01", "number"):
        assert secret.encode() not in content
    assert b"key:k" in content and b'"column":"key"' not in content  # neither the table's own column names


@pytest.mark.parametrize("key, sizes", [("k", [4]), ("day", [5, 3]), ("kd", [13]), (None, [])])
@pytest.mark.parametrize("mechanism, layout", [("joint", None), ("joint", "semiring"), ("fpm", None), ("fpm-opt", None)])
@pytest.mark.parametrize("budget", [Budget("0.5", "1e-7"), Budget("0.5")])
def test_every_mechanism_layout_and_key_gives_a_sketch_that_reads_back(
    ledger: Ledger, mechanism: str, layout: str | None, key: str | None, sizes: list[int], budget: Budget
) -> None:
    options = {"mechanism": mechanism, "layout": layout, "key": key, "features": ("x", "y"), "budget": budget}
    if (key is None and layout == "semiring") or (key == "day" and (mechanism != "joint" or layout)):
        with pytest.raises(InvalidInput, match="layout"):
            release(rows(), ledger, **options)
        assert books(ledger) == []
        return
    released = release(rows(), ledger, **options)
    again = read_sketch(released.content)
    assert [len(level) for level in again.levels] == sizes
    assert again.plan.noise == ("gaussian" if budget.delta else "laplace")


@pytest.mark.parametrize("backend", ["duckdb", "polars"])
@pytest.mark.parametrize("wrap", [pl.from_pandas, lambda frame: frame, lambda frame: pl.from_pandas(frame).to_arrow()])
def test_without_noise_the_sketch_holds_the_sums_of_the_rows(
    ledger: Ledger, no_noise: NoiseSource, backend: str, wrap: Callable[[pd.DataFrame], Any]
) -> None:
    table = rows()
    sketch = release(wrap(table), ledger, noise=no_noise, backend=backend, features=("x", "o")).sketch
    scaled = (table.x - 5) / 5
    for row, key in enumerate(("a", "b", "c")):
        here = table.key == key
        expected = [here.sum(), scaled[here].sum(), (table.o[here] == "a").sum(), (table.o[here] == "b").sum()]
        assert np.allclose(sketch.levels[0].values[row], expected, atol=1e-3)
    assert np.allclose(sketch.whole(2)[0], (scaled**2).sum(), atol=1e-3)  # type: ignore[index]
    assert sketch.header.simulation and sketch.header.assumptions.noise == "simulated"


def test_progress_is_told_in_stages_and_reaches_the_end(ledger: Ledger) -> None:
    heard: list[tuple[str, float | None]] = []
    privatize(rows(), request(), ledger, progress=lambda stage, part: heard.append((stage, part)))
    assert [stage for stage, _ in heard][:2] == ["reading the table's columns", "counting rows"]
    assert heard[-1] == ("drawing noise", 1.0)


def test_preparing_spends_and_draws_nothing_and_describes_what_would_be(ledger: Ledger) -> None:
    ready = prepare(rows(), request(), ledger)
    told = describe(ready)
    assert books(ledger) == [] and told["rows"] == 60 and told["values"] == ready.draws == 4 * 5 + 4 + 10
    assert told["events"] == [event.to_json() for event in ready.events]


# ------------------------------------------------------------------------------------------------ charge first


class Interrupted(KeyboardInterrupt):
    pass


class Fails:
    """A noise source that fails when it is first asked, and looks into the ledger before it does."""

    def __init__(self, ledger: Ledger, error: type[BaseException], *, simulated: bool = True) -> None:
        self.ledger, self.error, self.seen, self.simulated = ledger, error, -1, simulated

    def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        account = self.ledger.account("t")
        self.seen = len(account.entries) if account else 0
        raise self.error

    laplace = gaussian

    def choose(self, scores: np.ndarray, sensitivity: int, epsilon: float) -> int:
        self.gaussian(scores, epsilon, lambda _: None)
        raise AssertionError


AMPLE = {"cap": {"epsilon": "500", "delta": "1e-6"}}
BOUGHT = {"x": {"bounds": {"buy": "0.1"}}, "y": {"bounds": [0, 10]}}
WAYS: dict[str, dict[str, Any]] = {
    "Gaussian": {},
    "Laplace": {"budget": Budget("0.5")},
    "bought bounds": {"card": card(features=BOUGHT, budget=AMPLE), "budget": Budget("200", "1e-6")},  # 60 rows take that
    "component": {"card": card(component={"of": ["x", "y"]})},
    "paper": {"paper_preparation": True, "features": ("x", "y")},
}


@pytest.mark.fault
@pytest.mark.parametrize("error", [RuntimeError, Interrupted, MemoryError])
@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_the_ledger_is_charged_before_the_first_draw_and_keeps_the_charge(
    ledger: Ledger, options: dict[str, Any], error: type[BaseException]
) -> None:
    noise = Fails(ledger, error)
    with pytest.raises(error):
        release(rows(), ledger, noise=noise, **options)
    assert noise.seen == 1
    account = ledger.account("t")
    assert account is not None and account.spent_epsilon > 0
    assert [entry.to_json()["state"] for entry in account.entries] == ["spent, nothing released"]
    assert not (ledger.home / "sketches").exists()
    # Asked again, it is charged again: a crash may waste budget, it never refunds it.
    release(rows(), ledger, **options)
    account = ledger.account("t")
    assert account is not None
    assert [entry.to_json()["state"] for entry in account.entries] == ["spent, nothing released", "released"]


@pytest.mark.fault
def test_a_disk_that_fails_after_the_draw_leaves_the_charge_and_no_half_file(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full_disk)
        with pytest.raises(OSError, match="No space"):
            release(rows(), ledger)
    assert list((ledger.home / "sketches").iterdir()) == []
    account = ledger.account("t")
    assert account is not None and account.entries[0].digest is None


@pytest.mark.fault
def test_a_receipt_that_cannot_be_written_leaves_the_charge(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(self: Ledger, *_: Any) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "receipt", gone)
        with pytest.raises(Interrupted):
            release(rows(), ledger)
    account = ledger.account("t")
    assert account is not None and [entry.digest for entry in account.entries] == [None]


def test_the_receipt_comes_after_the_sketch_is_on_disk(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk = []
    original = Ledger.receipt

    def watched(self: Ledger, entry: Any, digest: str) -> None:
        on_disk.append(sketch_path(self, digest).is_file())
        original(self, entry, digest)

    monkeypatch.setattr(Ledger, "receipt", watched)
    release(rows(), ledger)
    assert on_disk == [True]


# ------------------------------------------------------------------------------------------------ asked again


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_the_same_request_returns_the_same_bytes_and_costs_nothing(ledger: Ledger, options: dict[str, Any]) -> None:
    first = release(rows(), ledger, **options)
    before = books(ledger)
    again = release(rows(), ledger, noise=Fails(ledger, RuntimeError, simulated=False), **options)
    assert again.repeated and not first.repeated
    assert again.content == first.content and again.entry == first.entry and books(ledger) == before


def test_a_simulation_is_never_handed_out_for_a_release(ledger: Ledger, seeded: Callable[[int], NoiseSource]) -> None:
    rehearsal = release(rows(), ledger, noise=seeded(1))
    real = release(rows(), ledger)
    assert rehearsal.sketch.header.simulation and not real.repeated and not real.sketch.header.simulation
    assert release(rows(), ledger).content == real.content


def test_a_repeat_is_free_also_when_nothing_is_left(ledger: Ledger) -> None:
    whole = card(budget=None)
    first = release(rows(), ledger, card=whole)
    assert ledger.account("t").left_epsilon == pytest.approx(0, abs=1e-6)  # type: ignore[union-attr]
    assert release(rows(), ledger, card=whole).content == first.content


def test_a_repeat_of_a_file_is_recognised_by_its_bytes(ledger: Ledger, tmp_path: Path) -> None:
    rows().to_csv(tmp_path / "a.csv", index=False)
    rows().to_csv(tmp_path / "b.csv", index=False)
    first = release(tmp_path / "a.csv", ledger)
    assert release(tmp_path / "b.csv", ledger).content == first.content


@pytest.mark.parametrize(
    "change",
    [
        {"budget": Budget("0.6", "1e-7")},
        {"features": ("x",)},
        {"key": "day"},
        {"mechanism": "fpm"},
        {"layout": "semiring"},
        {"bound": Decimal(1)},
        {"allocation": "alg2"},
        {"card": card(features=CARD["features"] | {"x": {"bounds": [0, 11]}})},
        {"card": card(keys=CARD["keys"] | {"k": {"column": "key", "domain": {"values": ["a", "b"], "id": "abc"}}})},
    ],
    ids=str,
)
def test_another_request_on_the_same_rows_is_charged_anew(ledger: Ledger, change: dict[str, Any]) -> None:
    release(rows(), ledger)
    spent = ledger.account("t").spent_epsilon  # type: ignore[union-attr]
    assert not release(rows(), ledger, **change).repeated
    assert ledger.account("t").spent_epsilon > spent  # type: ignore[union-attr]


def test_a_lost_copy_of_the_sketch_is_not_replaced_by_fresh_noise_for_free(ledger: Ledger) -> None:
    first = release(rows(), ledger)
    sketch_path(ledger, first.sketch.digest).unlink()
    again = release(rows(), ledger)
    assert not again.repeated and len(ledger.account("t").entries) == 2  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------------------ other rows


def test_what_leaves_depends_on_the_request_and_not_on_whether_rows_have_changed(ledger: Ledger) -> None:
    first = release(rows(), ledger)
    before = books(ledger)
    changed = rows()
    changed.loc[0, "x"] += 1e-6
    again = release(changed, ledger)
    assert again.repeated and again.content == first.content and books(ledger) == before
    assert not release(rows(), ledger).notes
    (note,) = again.notes  # for the provider alone
    assert "another one than this sketch was made from" in note and "--new-version" in note


def test_a_stored_sketch_is_handed_out_whatever_has_become_of_the_table(ledger: Ledger, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    rows().to_csv(table, index=False)
    first = release(table, ledger)
    table.write_text("x\n")
    again = release(table, ledger)
    assert again.content == first.content and "cannot be released as it is now" in again.notes[0]


@pytest.mark.parametrize("changed", [False, True])
def test_a_new_version_counts_is_charged_and_drawn_anew_changed_or_not(ledger: Ledger, changed: bool) -> None:
    first = release(rows(), ledger)
    second = release(rows(seed=int(changed)), ledger, new_version=True)
    assert second.sketch.header.edition == 2 and second.entry.edition == 2 and not second.repeated
    assert second.content != first.content
    account = ledger.account("t")
    assert account is not None and len(account.entries) == 2 and account.spent_epsilon > 0.6
    assert release(rows(seed=int(changed)), ledger).content == second.content  # the latest is handed out again


def test_another_relation_or_cap_for_the_same_dataset_is_refused(ledger: Ledger) -> None:
    release(rows(), ledger)
    before = books(ledger)
    more = card(dataset={"name": "t", "max_rows": 1000})
    with pytest.raises(LedgerConflict, match="replace-one"):
        release(rows(), ledger, neighbours=Neighbours.ADD_REMOVE, card=more)
    with pytest.raises(LedgerConflict, match="cap"):
        release(rows(), ledger, card=card(budget={"cap": {"epsilon": "3", "delta": "1e-6"}}), features=("x",))
    assert books(ledger) == before


def test_datasets_do_not_share_a_budget(ledger: Ledger) -> None:
    for name, table in {"one": rows(200), "two": rows(201)}.items():
        release(table, ledger, card=card(dataset={"name": name}), budget=Budget("2", "1e-6"))
    assert len(ledger.accounts()) == 2


# ------------------------------------------------------------------------------------------------ bad input


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
    "unknown column": (InvalidTable, "no column 'x'", lambda _: rows().drop(columns="x"), {}),
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
