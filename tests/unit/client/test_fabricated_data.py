"""The attack with fabricated data, from sketches to a result: 500 random features of one provider, with 10^9 claimed rows.

Among 524 looks an honest gain was lost, and the luckiest of the random features stood first. By provider it is found, and
stands first; the claims are flagged; who does not trust the key leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd
import pytest

from saibot.client import Augmented, Corpus, Domains, SearchOptions, find_augmentation, local_request, pack_sketches
from saibot.search.looks_by_provider import LooksByProvider
from saibot.sketch import SigningKey, Sketch, signed, write_sketch
from tests.support.fabricating import PLACES, fabricated, honest_sketch

FAKE = SigningKey.new()
HONEST = [SigningKey.new() for _ in range(6)]
ROWS, FEATURES, TABLES = 10**9, 20, 25
OPTIONS = SearchOptions(unions=False, steps=1, shown=20)
SEED, EFFECT = 4, 0.37


@cache
def published() -> tuple[Sketch, ...]:
    """Six honest tables of four columns, and twenty-five made-up ones of twenty."""
    columns = tuple("abcd")
    honest = [signed(honest_sketch(f"office{i}", 30 + i, features=columns, rows=8000), key) for i, key in enumerate(HONEST)]
    fakes = [fabricated(f"made-up-{i}", features=FEATURES, rows=ROWS, seed=i) for i in range(TABLES)]
    return (*honest, *(signed(sketch, FAKE) for sketch in fakes))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("attack")
    paths = []
    for sketch in published():
        paths.append(folder / f"{sketch.header.dataset.name}.saibot")
        paths[-1].write_bytes(write_sketch(sketch))
    corpus, packed = pack_sketches(folder / "corpus", paths, learn=False)
    assert len(packed.added) == len(paths) and not packed.refused
    return corpus


@pytest.fixture(scope="module")
def asked(corpus: Corpus) -> Callable[..., Augmented]:
    """A table whose target follows the first column of an honest office a little."""
    values = published()[0].levels[0].values[: len(PLACES)]
    level = values[:, 1] / values[:, 0]
    level = (level - level.mean()) / level.std()
    rng = np.random.default_rng(SEED)
    place = rng.integers(0, len(PLACES), 1500)
    between = rng.normal(size=len(PLACES))
    between -= between.mean() + level * (between @ level) / (level @ level)  # so that noise in the level moves nothing
    target = EFFECT * level[place] + 0.5 * between[place] + rng.normal(size=1500)
    rows = pd.DataFrame({"place": np.array(PLACES)[place], "age": rng.normal(size=1500), "target": target})

    def search(**options: object) -> Augmented:
        request = local_request(rows, target="target", keys=["place"], features=["age"], domains=Domains(corpus))
        return find_augmentation(request, corpus, OPTIONS.but(**options))

    return search


def test_an_honest_gain_is_taken_and_stands_first(asked: Callable[..., Augmented]) -> None:
    result = asked().result
    assert result.candidates == 6 * 4 + TABLES * FEATURES
    (step,) = result.steps
    assert (step.dataset, step.provider) == ("office0", HONEST[0].public.fingerprint)
    assert result.ranked[0].dataset == "office0"
    for shown in range(1, 21):
        assert sum(entry.provider == FAKE.public.fingerprint for entry in result.ranked[:shown]) <= (shown + 1) // 2


def test_by_the_number_of_all_looks_it_was_lost(asked: Callable[..., Augmented], monkeypatch: pytest.MonkeyPatch) -> None:
    def over_all(looks: LooksByProvider, alpha: float) -> dict[int, float]:
        return dict.fromkeys(looks.candidates, alpha / len(looks))

    monkeypatch.setattr(LooksByProvider, "levels", over_all)
    result = asked().result
    assert result.steps == () and result.ranked[0].provider == FAKE.public.fingerprint


def test_claims_are_flagged_in_the_result_and_honest_ones_are_not(asked: Callable[..., Augmented]) -> None:
    for entry in asked().result.ranked:
        assert ("many-rows" in {flag.code for flag in entry.flags}) == (entry.provider == FAKE.public.fingerprint)


def test_a_key_that_is_not_asked_for_is_left_out(asked: Callable[..., Augmented]) -> None:
    trusted = [key.public.fingerprint for key in HONEST]
    result = asked(providers=tuple(trusted)).result
    assert result.candidates == 24 and {entry.provider for entry in result.ranked} <= set(trusted)
