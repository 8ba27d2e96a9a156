"""What a provider sees before paying; and a card that is changed after a look is tuned, unless the change was paid."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from research.seeded import Seeded
from saibot.client.leaving import why_not_private
from saibot.errors import InvalidInput
from saibot.platform.errors import Unusable
from saibot.platform.validation import _check_private
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, look_at, privatize
from saibot.privatize.tuning import tuned_fields
from tests.support.releases import books

WIDE: dict[str, Any] = {
    "dataset": {"name": "t", "neighbours": "replace-one"},
    "features": {"age": {"bounds": [0, 1000], "unit": "year"}, "size": {"bounds": [2, 6]}},
    "keys": {"ward": {"domain": "range:ward:1:20"}},
}


def table(rows: int = 6000) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    ward = rng.integers(1, 21, rows)
    age = np.where(rng.random(rows) < 0.1, np.nan, rng.normal(40 + 2 * ward, 5))
    return pd.DataFrame({"ward": np.where(ward > 18, 77, ward), "age": age, "size": rng.integers(1, 10, rows)})


def asked(card: dict[str, Any] | Card = WIDE, epsilon: str = "1", **options: Any) -> ReleaseRequest:
    made = card if isinstance(card, Card) else Card.parse(card)
    terms = {"key": "ward", "allocation": "equal"} | options
    return ReleaseRequest(made, Budget(epsilon, "1e-6"), Neighbours.REPLACE_ONE, **terms)


def test_a_look_tells_keys_missing_cells_clipped_values_and_what_survives(ledger: Ledger) -> None:
    frame = table()
    look = look_at(frame, asked(), ledger)
    inside = (frame["ward"] <= 18).mean()
    assert look.rows == 6000 and look.inside == pytest.approx(inside) and (look.keys, look.empty_keys) == (20, 2)
    age, size = look.columns
    assert age.missing == pytest.approx(frame["age"].isna().mean()) and (age.below, age.above) == (0, 0)
    assert size.below == pytest.approx((frame["size"] < 2).mean()) and size.above == pytest.approx(
        (frame["size"] > 6).mean()
    )
    means = frame[frame["ward"] <= 18].fillna({"age": 500}).groupby("ward")["age"].mean()
    assert age.spread == pytest.approx(means.std(), rel=0.1) and age.unit == "year"  # in the column's own units


def test_what_survives_is_what_a_release_keeps(ledger: Ledger) -> None:
    """Against many drawn releases: the squared correlation of true and noisy means by key."""
    card = {**WIDE, "features": {"age": {"bounds": [30, 90], "missing": 60}}}
    frame = table().fillna({"age": 60})
    (age,) = look_at(frame, asked(card, "0.05"), ledger).columns
    clipped = frame[frame["ward"] <= 18].assign(age=frame["age"].clip(30, 90))
    true = clipped.groupby("ward")["age"].mean().to_numpy()
    kept = []
    for seed in range(20):
        books_of_its_own = Ledger(ledger.home / str(seed))
        sketch = privatize(frame, asked(card, "0.05", yes=True), books_of_its_own, noise=Seeded(seed)).sketch
        values = sketch.levels[0].values[:18]
        # Around the known mean the error of a key is that of its sum less its mean times that of its count.
        noise = (values[:, 1] - (true - 60) / 30 * values[:, 0]) / clipped.groupby("ward").size().to_numpy() * 30
        kept.append(true.var() / (true.var() + (noise**2).mean()))
    assert age.survives == pytest.approx(np.mean(kept), abs=0.05) and 0.1 < age.survives < 0.9


def test_what_would_be_better_is_offered_with_how_much(ledger: Ledger) -> None:
    told = " ".join(look_at(table(), asked(epsilon="0.3"), ledger).better)
    assert "bounds at the quartiles" not in told  # 0.03 of 6,000 rows would not place them
    assert "--epsilon 0.6" in told and "one column by itself" in told
    told = " ".join(look_at(table(), asked(), ledger).better)
    assert "bounds at the quartiles, bought" in told and "instead of" in told


def test_keys_of_another_list_and_columns_of_noise_are_a_waste(ledger: Ledger) -> None:
    elsewhere = {**WIDE, "keys": {"ward": {"domain": "range:ward:100:120"}}}
    assert look_at(table(), asked(elsewhere), ledger).wasteful == "no row has a key of the domain"
    hopeless = {**WIDE, "features": {"age": {"bounds": [0, 1e6], "missing": 0}}}
    assert "nothing but noise" in (look_at(table(), asked(hopeless), ledger).wasteful or "")
    fine = {**WIDE, "features": {"age": {"bounds": [30, 90]}}}
    assert look_at(table(), asked(fine), ledger).wasteful is None


def test_repeated_values_of_a_column_called_like_an_id_are_pointed_out(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "panel.csv"
    table().assign(person_nr=np.arange(6000) // 8).to_csv(path, index=False)
    assert look_at(path, asked(), ledger).ids == ("person_nr",)


def test_a_look_charges_nothing_and_leaves_hashes_alone_behind(ledger: Ledger) -> None:
    look_at(table(), asked(), ledger)
    assert books(ledger) == [] and not (ledger.home / "sketches").exists()
    with sqlite3.connect(ledger.home / "ledger.sqlite") as db:
        rows = db.execute("SELECT account, kind, hashes FROM look").fetchall()
    assert len(rows) == 1 and rows[0][:2] == ("t", "look")
    kept = rows[0][2]
    assert not any(word in kept for word in ("age", "1000", "ward", "bounds", "size"))
    with sqlite3.connect(ledger.home / "ledger.sqlite") as db, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute("DELETE FROM look")


CHANGES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "the same card": (WIDE, ()),
    "other words and another cap": (
        {**WIDE, "dataset": {**WIDE["dataset"], "title": "x"}, "budget": {"cap": {"epsilon": "2", "delta": "1e-6"}}},
        (),
    ),
    "other bounds": (
        {**WIDE, "features": {**WIDE["features"], "age": {"bounds": [30, 90], "unit": "year"}}},
        ("features.age.bounds",),
    ),
    "bounds that are bought": (
        {**WIDE, "features": {**WIDE["features"], "age": {"bounds": {"buy": "auto"}, "unit": "year"}}},
        (),
    ),
    "fewer features": (
        {**WIDE, "features": {"age": WIDE["features"]["age"]}},
        ("a field that it no longer has",),
    ),
    "another list of keys": ({**WIDE, "keys": {"ward": {"domain": "range:ward:1:99"}}}, ("keys",)),
    "a component of all": ({**WIDE, "component": {"of": ["age", "size"]}}, ()),
}


@pytest.mark.parametrize("card, changed", CHANGES.values(), ids=CHANGES)
def test_a_card_is_tuned_if_something_unpaid_changed_after_a_look(
    card: dict[str, Any], changed: tuple[str, ...], ledger: Ledger
) -> None:
    assert tuned_fields(Card.parse(card), "t", ledger) == ()  # nobody has looked yet
    look_at(table(), asked(), ledger)
    assert tuned_fields(Card.parse(card), "t", ledger) == changed
    assert tuned_fields(Card.parse(card), "others", ledger) == ()


def test_a_tuned_release_is_stopped_before_the_charge_and_refused_by_clients_and_platforms(ledger: Ledger) -> None:
    look_at(table(), asked(), ledger)
    tuned = CHANGES["other bounds"][0]
    with pytest.raises(InvalidInput, match=r"looked at your rows with \(features.age.bounds\).*Nothing was charged"):
        privatize(table(), asked(tuned), ledger, noise=Seeded(1))
    assert books(ledger) == []
    sketch = privatize(table(), asked(tuned, yes=True), ledger, noise=Seeded(1)).sketch
    assert sketch.header.preparation.kind == "tuned"
    assert "changed after its rows were looked at: features.age.bounds" in sketch.header.preparation.steps[-1]
    honest = sketch.header.model_copy(
        update={"simulation": False, "assumptions": sketch.header.assumptions.model_copy(update={"noise": "exact-integer"})}
    )
    with pytest.raises(Unusable, match="changed after its rows were looked at"):
        _check_private(honest)
    real = type(sketch)(honest, sketch.levels)
    assert "changed after its rows were looked at" in (why_not_private(real) or "")


def test_keys_may_be_changed_once_their_coverage_was_bought(ledger: Ledger) -> None:
    wrong = asked({**WIDE, "keys": {"ward": {"domain": "range:ward:18:60"}}}, coverage="0.01")
    look_at(table(), wrong, ledger)
    assert tuned_fields(Card.parse(WIDE), "t", ledger) == ("keys",)
    with pytest.raises(InvalidInput, match="That count alone was charged"):
        privatize(table(), wrong, ledger, noise=Seeded(1))
    assert tuned_fields(Card.parse(WIDE), "t", ledger) == ()
