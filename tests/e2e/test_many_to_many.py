"""The paper's join by command: all pairs of rows with the same key, scored from semi-ring sketches that are exact here.

Sketches are made without noise, at an epsilon so large that their stated noise is next to nothing, so what the search says
can be compared with joins that pandas builds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.sketch import write_sketch
from tests.support.noise import NoNoise
from tests.support.shell import run

KEYS = [f"2013-01-{i:02d}" for i in range(1, 21)]
LAYOUTS = {"fpm": "join", "fpm-opt": "join", "joint": "semiring"}


def found(cwd: Path, *arguments: object) -> dict[str, Any]:
    done = run("search", *arguments, "--target", "y", "--corpus", "corpus", "--engine", "threads", "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def materialised(request: pd.DataFrame, *providers: pd.DataFrame) -> float:
    """R2 on the rows of the join."""
    joined = request
    for provider in providers:
        joined = joined.merge(provider, on="day")
    features = joined.drop(columns=["day", "y"])
    return float(LinearRegression().fit(features, joined["y"]).score(features, joined["y"]))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, pd.DataFrame]]:
    """A request and three providers: `best` and `next` say something about days, `none` does not."""
    folder = tmp_path_factory.mktemp("pairs")
    rng = np.random.default_rng(0)
    first, second = rng.uniform(-0.5, 0.5, (2, len(KEYS)))

    def table(rows: int, column: str, day_effect: np.ndarray, spread: float) -> pd.DataFrame:
        places = rng.integers(0, len(KEYS), rows)
        values = np.clip(day_effect[places] + rng.uniform(-spread, spread, rows), -1, 1)
        return pd.DataFrame({"day": np.array(KEYS)[places], column: values})

    request = table(400, "x", 0 * first, 0.5)
    places = request["day"].map({key: i for i, key in enumerate(KEYS)}).to_numpy()
    request["y"] = np.clip(
        0.7 * first[places] + 0.5 * second[places] + 0.2 * request["x"] + rng.uniform(-0.1, 0.1, 400), -1, 1
    )
    frames = {"request": request}
    frames |= {
        "best": table(300, "a", first, 0.1),
        "next": table(250, "b", second, 0.1),
        "none": table(300, "c", 0 * first, 0.5),
    }
    mechanisms = {"request": "joint", "best": "fpm", "next": "fpm-opt", "none": "joint"}
    for name, frame in frames.items():
        card = Card.parse({
            "dataset": {"name": name, "neighbours": "replace-one"},
            "budget": {"cap": {"epsilon": "1000000", "delta": "1e-4"}},
            "features": {column: {"bounds": [-1, 1]} for column in frame if column != "day"},
            "keys": {"day": {"column": "day", "domain": {"dates": [KEYS[0], KEYS[-1]]}}},
        })  # fmt: skip
        mechanism = mechanisms[name]
        terms = {"key": "day", "mechanism": mechanism, "layout": LAYOUTS[mechanism], "calibration": "analytic"}
        asked = ReleaseRequest(card, Budget("100000", "1e-6"), Neighbours.REPLACE_ONE, **terms)
        sketch = privatize(frame, asked, Ledger(folder / "home"), noise=NoNoise()).sketch
        (folder / f"{name}.saibot").write_bytes(write_sketch(sketch))
        frame.to_csv(folder / f"{name}.csv", index=False)
    packed = run("pack", "--unsafe", "corpus", "best.saibot", "next.saibot", "none.saibot", cwd=folder)
    assert packed.returncode == 0, packed.stderr
    return folder, frames


@pytest.mark.parametrize(
    "train", [("request.csv", "--key", "day", "--feature", "x"), ("request.saibot",)], ids=["local", "private"]
)
def test_the_best_table_by_many_to_many_r2_is_found_with_the_r2_of_the_materialised_join(world, train):
    folder, frames = world
    result = found(folder, "--train", *train, "--join", "many-to-many")
    own = materialised(frames["request"])
    assert result["base"]["train_r2"] == pytest.approx(own, abs=1e-4)
    gains = {entry["dataset"]: entry["gain"] for entry in result["ranked"]}
    for name in ("best", "next", "none"):
        assert gains[name] == pytest.approx(materialised(frames["request"], frames[name]) - own, abs=1e-4)
    assert result["ranked"][0]["dataset"] == max(gains, key=gains.get) == "best"
    assert [step["dataset"] for step in result["steps"]] == ["best", "next"]
    assert result["steps"][0]["train_r2"] == pytest.approx(materialised(frames["request"], frames["best"]), abs=1e-4)
    both = materialised(frames["request"], frames["best"], frames["next"])
    assert result["steps"][1]["train_r2"] == pytest.approx(both, abs=1e-4)
    assert result["join"] == "many-to-many" and any(
        "all rows of a provider with the same key" in note for note in result["notes"]
    )
