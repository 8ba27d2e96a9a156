"""`saibot plan` and a dry run print what bought bounds cost, before anything is spent."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from saibot.cli.app import app
from saibot.privacy import Budget, Spent
from saibot.privacy.events import event_from_json


def text_of(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return done.output


def test_a_plan_with_bought_bounds_prints_their_price_and_what_is_left() -> None:
    asked = ("plan", "--buy", "0.1", "--buy", "0.2", "--features", "2")
    text = " ".join(text_of(*asked).split())
    assert "Bounds are bought: feature 1 μ=0.033, feature 2 μ=0.0661. The release has 90.3 % of μ²." in text
    document = json.loads(text_of(*asked, "--json"))
    events = [event_from_json(event) for event in document["events"]]
    assert [event.to_json()["kind"] for event in events] == ["choice", "choice", "gaussian"]
    assert Spent.of(events).within(Budget("1", "1e-6")) and not Spent.of(events).within(Budget("0.999", "1e-6"))
    assert "Bounds are bought" not in text_of("plan")


def test_without_delta_the_price_is_epsilon() -> None:
    text = " ".join(text_of("plan", "--buy", "0.1", "--delta", "0").split())
    assert "feature 1 ε=0.1. The release has 90 % of ε." in text


@pytest.mark.usefixtures("saibot_home")
def test_a_dry_run_prints_what_bounds_cost(tmp_path: Path) -> None:
    pd.DataFrame({"x": np.zeros(5000)}).to_csv(tmp_path / "t.csv", index=False)
    card = '[dataset]\nname = "t"\nneighbours = "replace-one"\n[features.x]\nbounds = { buy = "auto" }\n'
    (tmp_path / "t.toml").write_text(card)
    text = " ".join(text_of("privatize", str(tmp_path / "t.csv"), "--dry-run").split())
    assert "Bounds are bought: x μ=0.033. The release has 98.1 % of μ²." in text and "nothing was charged" in text
