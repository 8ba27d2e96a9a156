"""From a table to a sketch: what comes out, what a repeat returns, and what becomes of changed rows."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from saibot.errors import (
    InvalidInput,
    LedgerConflict,
)
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import prepare, privatize
from saibot.privatize.charging import sketch_path
from saibot.privatize.noise import NoiseSource
from saibot.sketch import read_sketch
from tests.support.releases import CANARY, CANARY_NUMBER, CARD, WAYS, Fails, books, card, release, request, rows

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
    told = ready.to_json()
    assert books(ledger) == [] and told["rows"] == 60 and told["values"] == ready.draws == 4 * 5 + 4 + 10
    assert told["events"] == [event.to_json() for event in ready.events]


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
