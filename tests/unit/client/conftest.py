"""Shared by the requester's tests: providers whose sketches carry (almost) no noise, and a corpus of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.client import Corpus
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.sketch import KeyDomain, Sketch
from tests.support.noise import NoNoise

SHOPS = tuple(f"{i:02d}" for i in range(1, 13))  # a key that is no number: 01 must stay 01
DAYS = ("2013-01-01", "2013-03-31")
LAVISH = Budget("1000000", "1e-6")  # noise far below anything that these tests look at

Levels = dict[str, dict[str, float]]


def card(name: str, *, features: dict[str, Any] | None = None, keys: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "dataset": {"name": name},
        "budget": {"cap": {"epsilon": "100000000", "delta": "1e-5"}},
        "features": features or {"level": {"bounds": [0, 100], "unit": "point"}},
        "keys": keys
        or {
            "shop": {"column": "shop", "domain": {"values": list(SHOPS), "id": "shops"}},
            "day": {"column": "day", "domain": {"dates": list(DAYS)}, "levels": ["month"]},
        },
    }


def make_sketch(
    frame: pd.DataFrame, facts: dict[str, Any], key: str | None, home: Path, *, budget: Budget = LAVISH, **options: Any
) -> Sketch:
    terms = {"neighbours": Neighbours.REPLACE_ONE, "allocation": "equal"} | options
    request = ReleaseRequest(Card.parse(facts), budget, key=key, **terms)
    return privatize(frame, request, Ledger(home), noise=NoNoise()).sketch


def provider_rows(levels: dict[str, float], column: str, *, each: int = 40, seed: int = 0) -> pd.DataFrame:
    """`each` rows of every key, around that key's level."""
    keys = np.repeat(list(levels), each)
    values = np.repeat(list(levels.values()), each) + np.random.default_rng(seed).normal(0, 2, len(keys))
    return pd.DataFrame({column: keys, "level": np.clip(values, 0, 100)})


@pytest.fixture
def sketch_of(saibot_home: Path) -> Callable[..., Sketch]:
    """sketch_of(frame, card, key, ...): a sketch without noise."""
    return lambda frame, facts, key, **options: make_sketch(frame, facts, key, saibot_home, **options)


@pytest.fixture(scope="session")
def levels() -> Levels:
    """What the providers know: a level for every shop and for every day."""
    rng = np.random.default_rng(7)
    days = [str(day.date()) for day in pd.date_range(*DAYS)]
    return {
        "shop": dict(zip(SHOPS, rng.uniform(20, 80, len(SHOPS)), strict=True)),
        "day": dict(zip(days, rng.uniform(20, 80, len(days)), strict=True)),
    }


@pytest.fixture(scope="session")
def sketches(levels: Levels, tmp_path_factory: pytest.TempPathFactory) -> list[Sketch]:
    home = tmp_path_factory.mktemp("providers")
    return [
        make_sketch(provider_rows(levels["shop"], "shop"), card("shops-survey"), "shop", home),
        make_sketch(provider_rows(levels["day"], "day"), card("day-weather"), "day", home),
    ]


@pytest.fixture(scope="session")
def packed(sketches: list[Sketch], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed") / "corpus"
    days = KeyDomain.of_dates(*map(date.fromisoformat, DAYS))
    assert Corpus.create(folder).add(sketches, {days.digest: days}) == []
    return folder


@pytest.fixture
def corpus(packed: Path, tmp_path: Path) -> Corpus:
    return Corpus(Path(shutil.copytree(packed, tmp_path / "corpus")))


@pytest.fixture(scope="session")
def all_rows(levels: Levels) -> pd.DataFrame:
    rng = np.random.default_rng(11)
    n = 3000
    shop, day = rng.choice(list(levels["shop"]), n), rng.choice(list(levels["day"]), n)
    price = rng.normal(2000, 3, n)
    sales = (
        0.5 * np.array([levels["shop"][s] for s in shop])
        - 0.3 * np.array([levels["day"][d] for d in day])
        + 2 * price
        + rng.normal(0, 3, n)
    )
    return pd.DataFrame({"shop": shop, "day": day, "price": price, "sales": sales})


@pytest.fixture
def rows(all_rows: pd.DataFrame) -> pd.DataFrame:
    """The requester's own table: sales follow the shop's and the day's level, and an own price."""
    return all_rows.copy()
