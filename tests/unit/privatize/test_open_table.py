"""Public tables: exact sketches of them, and everything that must not become open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.errors import InvalidCard, InvalidInput, InvalidTable
from saibot.estimate import lookup_values, profile
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card
from saibot.privatize.open_table import OpenRequest, exact_sketch
from saibot.sketch import read_sketch, write_sketch
from tests.support.releases import CARD, release, rows

SOURCE = "Census of made-up places, https://example.org/places.csv"
FACTS = {"dataset": {"name": "places", "title": "Places"}, "features": CARD["features"], "keys": CARD["keys"]}


def card(**changes: Any) -> Card:
    return Card.parse(FACTS | changes)


def made(table: Any, ledger: Ledger, **options: Any) -> Any:
    return exact_sketch(table, OpenRequest(**{"card": card(), "source": SOURCE, "key": "k"} | options), ledger).sketch


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


def scaled(frame: pd.DataFrame) -> pd.DataFrame:
    """As a sketch holds it: numbers on [-1, 1], levels as 0 and 1."""
    return pd.DataFrame({
        "x": frame["x"] / 5 - 1, "y": frame["y"] / 5 - 1, "a": frame["o"] == "a", "b": frame["o"] == "b"
    }).astype(float)  # fmt: skip


def test_sums_by_key_and_over_the_table_are_those_of_the_rows(ledger: Ledger) -> None:
    table = rows(500)
    sketch, x = made(table, ledger), scaled(table)
    step = 2.0**-15
    for number, key in enumerate("abc"):
        mine = x[table["key"] == key]
        assert sketch.levels[0].values[number, 0] == len(mine)
        assert sketch.levels[0].values[number, 1:] == pytest.approx(mine.sum().to_numpy(), abs=step * 500)
    assert sketch.levels[0].values[-1, 0] == (~table["key"].isin(list("abc"))).sum()
    assert sketch.whole(1) == pytest.approx(x.sum().to_numpy(), abs=step * 500)
    products = (x.T @ x).to_numpy()[np.triu_indices(4)]
    assert sketch.whole(2) == pytest.approx(products, abs=2 * step * 500)
    assert all(block.sigma == 0 for block in sketch.blocks)


def test_it_says_that_it_is_open_where_it_is_from_and_that_it_cost_nothing(ledger: Ledger) -> None:
    header = made(rows(), ledger, source=f"  {SOURCE} ").header
    assert (header.open, header.source, header.budget, header.plan, header.account) == (True, SOURCE, {}, {}, None)
    assert (header.assumptions.noise, header.simulation, header.rows) == ("none", False, 60)
    assert ledger.accounts() == [] and ledger.known() == []


@pytest.mark.parametrize(
    "options, layout, levels, order",
    [
        ({"key": "k"}, "lookup", 1, 1),
        ({"key": "day"}, "lookup", 2, 1),
        ({"key": "day", "layout": "semiring"}, "semiring", 2, 2),
        ({"key": "kd", "layout": "semiring"}, "semiring", 1, 2),
        ({"key": None}, "union", 0, 1),
    ],
)
def test_every_shape_can_be_written_and_read_again(
    ledger: Ledger, options: dict[str, Any], layout: str, levels: int, order: int
) -> None:
    sketch = read_sketch(write_sketch(made(rows(200), ledger, **options)))
    assert (sketch.layout, sketch.mechanism, len(sketch.levels), sketch.key_basis.order) == (layout, "exact", levels, order)
    found = profile(sketch)
    assert found.count.to_json() == {"value": 200.0, "error": 0.0}
    assert found.features[0].mean.value == pytest.approx(rows(200)["x"].mean(), abs=1e-3)
    assert found.features[0].deviation.value == pytest.approx(rows(200)["x"].std(ddof=0), abs=1e-3)
    assert all(cell.error == 0 for row in found.correlations or () for cell in row)


def test_a_looked_up_value_is_the_mean_itself(ledger: Ledger) -> None:
    table = rows(200)
    found = lookup_values(made(table, ledger))
    means = scaled(table).groupby(table["key"]).mean()
    assert found.values[0, :2] == pytest.approx([means.loc["a", "x"], means.loc["b", "x"]], abs=1e-4)
    assert (found.posterior_variance[:, :2] == 0).all()


# ------------------------------------------------------------------------------------------------ what is not open


@pytest.mark.parametrize(
    "change, word",
    [
        ({"budget": {"cap": {"epsilon": "1"}}}, r"\[budget\]"),
        ({"dataset": {"name": "places", "individual": "one patient"}}, "individual in"),
        ({"dataset": {"name": "places", "neighbours": "replace-one"}}, "neighbours in"),
        ({"dataset": {"name": "places", "account": "patients"}}, "account in"),
        ({"dataset": {"name": "places", "id": "number"}}, "id in"),
        ({"dataset": {"name": "places", "id": "number", "rows_per_individual": 3}}, "rows_per_individual in"),
        ({"dataset": {"name": "places", "max_rows": 1000}}, "max_rows in"),
        ({"features": {"x": {"bounds": {"buy": "0.1"}}}}, "bought bounds of 'x'"),
        ({"component": {"of": ["x", "y"]}}, r"\[component\]"),
    ],
)
def test_a_card_that_plans_for_privacy_is_refused(change: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidCard, match=word):
        OpenRequest(card(**change), SOURCE)


@pytest.mark.parametrize("source", ["", "   "])
def test_a_table_without_a_source_is_refused(source: str) -> None:
    with pytest.raises(InvalidInput, match="needs its source"):
        OpenRequest(card(), source)


def test_rows_that_were_ever_charged_cannot_be_open(ledger: Ledger) -> None:
    table = rows(60)
    release(table, ledger)
    for again in (table, table.sample(frac=1, random_state=1), table.iloc[:40].assign(y=1.0)):
        with pytest.raises(InvalidInput, match=r"cannot be open.*stays protected"):
            made(again, ledger)


def test_a_dataset_that_was_ever_charged_cannot_be_open_with_other_rows(ledger: Ledger) -> None:
    release(rows(60), ledger)
    with pytest.raises(InvalidInput, match="'t' is protected by the ledger"):
        made(rows(60, seed=5), ledger, card=card(dataset={"name": "t"}))


def test_the_very_file_that_was_charged_cannot_be_open_by_other_columns(ledger: Ledger, tmp_path: Path) -> None:
    """Of so few rows that nothing else could tell."""
    path = tmp_path / "small.csv"
    rows(8).to_csv(path, index=False)
    release(path, ledger, features=("x",))
    with pytest.raises(InvalidInput, match="these very rows were charged"):
        made(path, ledger, features=("y",))


def test_other_rows_can_be_open_beside_what_was_charged(ledger: Ledger) -> None:
    release(rows(60), ledger)
    assert made(rows(60, seed=7), ledger).header.open


def test_a_refusal_tells_no_cell(ledger: Ledger) -> None:
    table = rows(60)
    release(table, ledger)
    with pytest.raises(InvalidInput) as refused:
        made(table, ledger)
    told = f"{refused.value} {refused.value.hint}"
    assert not any(f"{value:.4f}" in told for value in table["x"])


def test_a_table_without_rows_or_without_any_known_key_is_refused(ledger: Ledger) -> None:
    with pytest.raises(InvalidTable, match="no rows"):
        made(rows(60).iloc[:0], ledger)
    with pytest.raises(InvalidTable, match="no row has a key"):
        made(rows(60).assign(key="elsewhere"), ledger)


def test_cells_that_are_no_numbers_are_told_to_the_provider(ledger: Ledger) -> None:
    table = rows(60).assign(x=["n/a", *["3"] * 59])
    found = exact_sketch(table, OpenRequest(card(), SOURCE, "k"), ledger)
    assert found.notes == ("1 of 60 cells of column 'x' do not read as a number; such cells count as missing.",)
