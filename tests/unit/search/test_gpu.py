"""The step on a GPU against the one on the processor. Skipped where there is none: continuous integration has none."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `gpu` is not installed: pip install 'saibot[gpu]'")
pytest.importorskip("triton", reason="triton comes with torch for CUDA")
if not torch.cuda.is_available():
    pytest.skip("no GPU is to be had here", allow_module_level=True)

from research.benchmarks.search import synthetic  # noqa: E402
from saibot.search import Corpus, SearchOptions, SearchRequest  # noqa: E402
from saibot.search.engine import Engine  # noqa: E402
from saibot.search.gpu import FEW, DeviceShards, resident, score_on_gpu  # noqa: E402
from saibot.search.greedy import first_states  # noqa: E402
from saibot.search.scoring import Base, score  # noqa: E402
from saibot.search.strategies import search  # noqa: E402
from saibot.search.sweep import sweep  # noqa: E402

CLOSE = 1e-4  # of the largest: what is promised; measured are 1e-6 and less


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> tuple[Corpus, SearchRequest]:
    corpus, request, _ = synthetic(tmp_path_factory.mktemp("gpu"), candidates=20_000, keys=1000, rows=20_000, shard=7_000)
    return corpus, request


def base_of(features: int, keys: int, rng: np.random.Generator) -> Base:
    """A model of so many features, the constant among them, whose features go together."""
    counts = rng.integers(1, 30, keys).astype(float)
    own = rng.normal(size=(keys, features - 1)) @ rng.normal(size=(features - 1, features - 1)) * np.sqrt(counts)[:, None]
    n, residual = counts.sum(), rng.normal(size=keys) * np.sqrt(counts)
    inverse = np.zeros((features, features))
    inverse[0, 0] = 1 / n
    inverse[1:, 1:] = np.linalg.inv(own.T @ own + np.eye(features - 1))
    theta = np.append(0.0, rng.normal(size=features - 1))
    return Base(
        inverse=inverse,
        theta=theta,
        tss=3 * n,
        count=n,
        residual_total=float(residual.sum()),
        weight_total=float(residual @ residual),
        rows_per_key=15.0,
        keys=keys,
        linear=np.column_stack([counts, own, own @ theta[1:] + residual, residual**2]),
        square=np.column_stack([counts, residual**2]),
    )


def farthest(there: np.ndarray, here: np.ndarray) -> float:
    return float(np.abs(there - here).max() / np.abs(here).max())


@pytest.mark.parametrize("features", [1, 2, FEW, FEW + 1, 8, 20])
@pytest.mark.parametrize("keys", [7, 357])
def test_scores_are_those_of_the_processor_for_few_features_and_for_many(features: int, keys: int) -> None:
    rng = np.random.default_rng(features)
    base, values = base_of(features, keys, rng), rng.normal(size=(3001, keys)).astype(np.float32)
    there = score_on_gpu(resident(values), base, quantile=2.0)
    here = score(*sweep(values.astype(np.float64), base.linear, base.square), base, quantile=2.0)
    for name in ("gain", "lower", "deviation", "coefficient"):
        assert farthest(there.column(name).cpu().numpy(), getattr(here, name)) < CLOSE, name


def test_a_shard_that_does_not_fit_is_streamed_to_the_same_scores() -> None:
    rng = np.random.default_rng(0)
    base, values = base_of(3, 50, rng), rng.normal(size=(150_000, 50)).astype(np.float32)
    whole = DeviceShards().scores(0, values, base, quantile=2.0)
    pieces = DeviceShards(most_bytes=1_000_000).scores(0, values, base, quantile=2.0)
    assert len(whole) == 1 and len(pieces) > 1
    assert torch.equal(torch.cat([piece.rows for piece in pieces], dim=1), whole[0].rows)


def test_the_best_of_twenty_thousand_are_the_same(stock: tuple[Corpus, SearchRequest]) -> None:
    corpus, request = stock
    train, _ = first_states(request)
    here, there = (
        Engine(corpus, request, SearchOptions(engine=name)).board(train, quantile=2.0) for name in ("threads", "gpu")
    )
    assert list(here.order(50)) == list(there.order(50))
    for name in ("gain", "lower", "deviation", "coefficient"):
        assert farthest(np.asarray(getattr(there, name)), getattr(here, name)) < CLOSE, name


def test_a_search_on_a_gpu_ends_as_one_on_the_processor(stock: tuple[Corpus, SearchRequest]) -> None:
    corpus, request = stock
    here, there = (
        search(request, corpus, SearchOptions(engine=name, steps=3, rank="usable")) for name in ("threads", "gpu")
    )
    assert here.steps and [step.found.digest for step in here.steps] == [step.found.digest for step in there.steps]
    assert [found.digest for found in here.ranked] == [found.digest for found in there.ranked]
    gains = [np.array([found.gain for found in result.ranked]) for result in (here, there)]
    assert farthest(gains[1], gains[0]) < CLOSE
