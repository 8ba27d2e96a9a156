"""A synthetic table as it is written: marked, in the sketch's own columns, with its utility beside it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest

from saibot.client import synthesize
from saibot.errors import InvalidInput
from saibot.privacy import Budget

from .conftest import SHOPS, card


@pytest.fixture
def sketch(sketch_of):
    rng = np.random.default_rng(1)
    shop = rng.choice(SHOPS, 6000)
    size = rng.uniform(0, 10, 6000)
    level = np.clip(5 * size + [10 * float(s) / 4 for s in shop] + rng.normal(0, 8, 6000), 0, 100)
    features = {"size": {"bounds": [0, 10], "unit": "m"}, "level": {"bounds": [0, 100]}}
    rows = pd.DataFrame({"shop": shop, "size": size, "level": level})
    return sketch_of(rows, card("survey", features=features), "shop", budget=Budget("50", "1e-6"))


def test_a_model_of_synthetic_rows_is_the_sketchs_model(sketch):
    made = synthesize(sketch, target="level")
    assert made.table.column_names == ["shop", "size", "level"]
    assert set(made.table.column("shop").to_pylist()) <= {*SHOPS, "__other__"}
    released, drawn = made.model.slopes["size"]
    assert drawn == pytest.approx(released, rel=0.1)
    assert made.model.synthetic_r2 == pytest.approx(made.model.r2, abs=0.02) and made.model.r2 > 0.3
    for one in made.features:
        assert one.synthetic_mean == pytest.approx(
            one.mean.value, abs=6 * one.deviation.value / 6000**0.5 + 4 * one.mean.error
        )


def test_the_file_says_that_its_rows_are_nobodys(sketch, tmp_path):
    made = synthesize(sketch, rows=50, seed=2)
    with pytest.raises(InvalidInput, match="does not say that its rows are nobody's") as refused:
        made.write(tmp_path / "survey.csv")
    assert "survey.synthetic.csv" in refused.value.hint
    made.write(tmp_path / "survey.synthetic.parquet")
    said = json.loads(parquet.read_schema(tmp_path / "survey.synthetic.parquet").metadata[b"saibot"])
    assert said == {"synthetic": True, "dataset": "survey", "sketch": sketch.digest, "seed": 2}
    assert len(pd.read_parquet(tmp_path / "survey.synthetic.parquet")) == 50


def test_the_same_seed_gives_the_same_rows_and_another_one_others(sketch):
    one, again, other = (synthesize(sketch, rows=20, seed=seed).table for seed in (1, 1, 2))
    assert one.equals(again) and not one.equals(other)
    with pytest.raises(InvalidInput, match="no feature 'colour'"):
        synthesize(sketch, target="colour")
    with pytest.raises(InvalidInput, match="1 to 50,000,000 rows"):
        synthesize(sketch, rows=0)
