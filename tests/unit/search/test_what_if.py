"""The chosen columns at other budgets, in the document of a result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from research.releases import Release
from research.seeded import Seeded
from saibot.client import find_augmentation, local_request
from saibot.privacy import Budget
from saibot.privatize import Card
from saibot.search import Corpus, SearchOptions
from saibot.sketch import KeyDomain, Sketch
from saibot.wire import Result, WhatIf

KEYS = 200
DOMAIN = KeyDomain.of_range(1, KEYS, of="shop")
CARD = {"features": {"x": {"bounds": [-1, 1], "unit": "m"}}}


def sketch_of(name: str, means: np.ndarray, rows: int, epsilon: str, seed: int) -> Sketch:
    rng = np.random.default_rng(seed)
    place = rng.integers(0, KEYS, rows)
    values = np.clip(means[place] + 0.3 * rng.normal(size=rows), -1, 1)
    card = Card.parse({"dataset": {"name": name}, **CARD})
    return Release(card, values[:, None], place, DOMAIN, Budget(epsilon, "1e-6")).sketch(Seeded(seed))


def asked(tmp_path: Path, epsilon: str, rows: int = 20_000, **options: object) -> Result:
    rng = np.random.default_rng(5)
    means, other = 0.2 * rng.normal(size=KEYS), 0.2 * rng.normal(size=KEYS)
    corpus = Corpus.create(tmp_path / f"corpus-{epsilon}")
    corpus.add([sketch_of("useful", means, rows, epsilon, 1), sketch_of("useless", other, rows, epsilon, 2)])
    place = rng.integers(0, KEYS, 6000)
    table = pd.DataFrame({"shop": place + 1, "y": 3 * means[place] + rng.normal(size=6000)})
    request = local_request(table, target="y", keys={"shop": DOMAIN}, features=[])
    return find_augmentation(request, corpus, SearchOptions(steps=1, **options)).result  # type: ignore[arg-type]


def what(result: Result) -> WhatIf:
    assert result.what_if is not None
    return result.what_if


def test_a_taken_column_passes_through_what_it_is_and_comes_to_what_it_could_be(tmp_path: Path) -> None:
    result = asked(tmp_path, "1")
    told = what(result)
    useful, useless = told.columns
    assert (useful.name, useful.taken, useless.taken) == ("useful.x", True, False)
    assert useful.budget is not None and useful.budget.epsilon == "1" and not useful.untold
    here = told.epsilons.index(1.0)
    assert useful.gain[here] == pytest.approx(useful.gain_now) and useful.kept[here] == pytest.approx(useful.kept_now)
    gains = [gain for gain in useful.gain if gain is not None]
    assert len(gains) == len(told.epsilons) and gains == sorted(gains)
    (step,) = result.steps
    assert step.potential is not None and gains[-1] <= step.potential * (1 + 1e-9)
    assert gains[-1] > 0.97 * step.potential, "with next to no noise it gives what raw means would"
    for gain, span in zip(useful.gain, useful.gain_interval, strict=True):
        assert gain is not None and span is not None and span[0] <= gain <= span[1]


def test_what_is_told_of_another_epsilon_is_what_a_search_finds_there(tmp_path: Path) -> None:
    now, then = asked(tmp_path, "1"), asked(tmp_path, "4")
    told = what(now)
    place = told.epsilons.index(3.0), told.epsilons.index(5.0)
    between = [told.columns[0].gain[i] for i in place]
    assert between[0] is not None and between[1] is not None
    found = then.steps[0].gain
    assert between[0] * 0.85 < found < between[1] * 1.15 and found > 1.1 * now.steps[0].gain


def test_values_that_are_all_noise_are_told_to_be_that(tmp_path: Path) -> None:
    told = what(asked(tmp_path, "0.1", rows=600))
    assert all(gain is None for one in told.columns for gain in one.gain), "nothing is foretold from noise"
    assert all(one.kept for one in told.columns), "how little is kept is told all the same"


def test_the_document_survives_being_written_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    from saibot.errors import InvalidInput

    result = asked(tmp_path, "1")
    assert Result.read(result.to_json(), "it") == result
    assert result.residuals == (), "sums by key of a local request's rows are in no result"
    broken = result.to_json()
    broken["what_if"]["columns"][0]["gain"].pop()
    with pytest.raises(InvalidInput, match="what_if"):
        Result.read(broken, "it")
