"""Unions: tables with the same columns, added to the training table as further rows.

More rows change the model, not the table it is judged on, so a union's gain is read off the held-out part: R2 there with
the coefficients of the enlarged table, minus R2 with the current ones. Its error has two parts, both taken from the
difference of the two models' residual sums of squares on the held-out part: sampling, about 4 s^2 d' Q d for coefficients
that differ by d, and the privacy noise of the products that it is a linear function of.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from saibot.discover.unions import Addable, find_unions
from saibot.estimate.intervals import gain_interval
from saibot.estimate.moments import moments_of_sketch
from saibot.search.corpus import Corpus
from saibot.search.found import Found
from saibot.search.key_maps import RequestKey, key_id, view_id
from saibot.search.request import SearchRequest
from saibot.search.state import State
from saibot.semiring import Moments
from saibot.wire import Dropped


@dataclass(frozen=True)
class Addition:
    """A table that can be added, in the request's units; `keyed` if its rows are known key by key."""

    dataset: str
    digest: str
    moments: Moments
    keyed: bool
    how: str


@dataclass(frozen=True)
class UnionScore:
    gain: float
    deviation: float

    def lower(self, quantile: float) -> float:
        return self.gain - quantile * self.deviation


def additions(
    request: SearchRequest, corpus: Corpus, allowed: Collection[str] | None = None
) -> tuple[list[Addition], list[Dropped]]:
    """All tables of a corpus that can be added to the request, and why the others cannot; of `allowed` digests alone."""
    if not request.facts:
        return [], []
    if request.test is None:
        reason = "unions are judged on a held-out part, and the request has none"
        return [], [Dropped(reason=reason, count=len(corpus), examples=())]
    keys = [domain.keys_digest for _, domain in request.key.parts] if request.key else None
    others = {d: h for d, h in corpus.headers.items() if d not in request.own and h.dataset.name not in request.own}
    headers = [header for digest, header in others.items() if allowed is None or digest in allowed]
    found: list[Addition] = []
    refused: dict[str, list[str]] = {}
    for answer in find_unions(request.facts, headers, neighbours=request.neighbours, keys=keys):
        if isinstance(answer, Addable):
            found.append(_load(answer, request, corpus))
        else:
            refused.setdefault(answer.reason, []).append(answer.dataset)
    reasons = [
        Dropped(reason=f"it cannot be added: {why}", count=len(names), examples=tuple(names[:3]))
        for why, names in refused.items()
    ]
    return found, reasons


def _load(answer: Addable, request: SearchRequest, corpus: Corpus) -> Addition:
    assert answer.digest is not None
    sketch = corpus.sketch(answer.digest)
    chosen = moments_of_sketch(sketch).select(tuple(each.sketch for each in answer.features))
    scale = np.array([each.factor for each in answer.features])
    shift = np.array([each.shift for each in answer.features])
    named = chosen.rescale(scale, shift).rename(tuple(each.request for each in answer.features))
    key, header = request.key, sketch.header
    same = key is not None and header.key is not None and np.array_equal(key.places, RequestKey.product(key.parts).places)
    keyed = bool(same and key_id(header.key) == view_id([d.keys_digest for _, d in key.parts]))  # type: ignore[union-attr,arg-type]
    if not keyed:
        named = named.whole()
    how = answer.explain() + ("; an open table: its rows are exact" if header.open else "")
    return Addition(answer.dataset, answer.digest, named, keyed, how)


def enlarged(train: Moments, addition: Addition) -> Moments:
    """The training table with further rows; without common keys, its per-key statistics stay those of its own rows."""
    if addition.keyed:
        return train + addition.moments
    return replace(
        train.whole() + addition.moments,
        counts=train.counts,
        sums=train.sums,
        count_noise=train.count_noise,
        sum_noise=train.sum_noise,
        key_products=None,
        key_product_noise=None,
    )


def score_union(current: State, after: State, test: State, noise: np.ndarray) -> UnionScore:
    """Gain on the held-out part; `noise` is that of its products, features in the order of the state's own."""
    before, now = current.theta(), after.theta()
    x = [i for i, name in enumerate(test.features) if name != test.target]
    y = test.features.index(test.target)
    gain = test.r2_of(after) - test.r2_of(current)
    square = test.moments.products[np.ix_(x, x)]
    tss = max(float(test.moments.products[y, y]), 1e-300)
    moved = now - before
    residual = max(tss * (1 - test.r2_of(current)), 0.0) / test.count
    sampling = 4 * residual * max(float(moved @ square @ moved), 0.0)
    own = [i for i, place in enumerate(x) if place < len(noise)]
    places = [x[i] for i in own]
    quadratic = (np.outer(before, before) - np.outer(now, now))[np.ix_(own, own)]
    spread = noise[np.ix_(places, places)] * quadratic
    # The matrix is symmetric: entries beside its diagonal are one noisy number that counts twice.
    privacy = float((np.diag(spread) ** 2).sum() + 4 * (np.triu(spread, 1) ** 2).sum())
    privacy += float(((2 * moved[own] * noise[places, y]) ** 2).sum()) if y < len(noise) else 0.0
    return UnionScore(float(gain), float(np.sqrt(sampling + privacy) / tss))


def describe_union(
    addition: Addition, before: State, after: State, test: Moments, lookups: Sequence[np.ndarray], level: float
) -> Found:
    """What the further rows do for the held-out part, with the exact interval of that gain.

    See mathematics.md, "Gains and their errors".

    Of a private request, on that very part: privacy noise only. Of a local one, on rows like those: sampling only.
    """
    own = tuple(name for name in test.features if name != before.target)
    gain = gain_interval(
        test,
        own=own,
        target=before.target,
        values=np.column_stack(lookups) if len(lookups) else None,
        base=coefficients(before),
        full=coefficients(after),
        source="test",
        confidence=level,
        sampling="rows" if test.exact else None,
    )
    return Found(
        kind="union",
        dataset=addition.dataset,
        digest=addition.digest,
        feature=None,
        key=(),
        gain=gain.value,
        lower=max(gain.lower, -1.0),
        upper=min(gain.upper, 1.0),
        coefficient=None,
        reliability=None,
        rows=round(addition.moments.count),
        privacy_share=0.0 if test.exact else 1.0,
        note=addition.how if addition.keyed else f"{addition.how}; nothing can be joined to its rows",
    )


def coefficients(model: State) -> np.ndarray:
    """Intercept, own features, lookups: of values as they are, not around the means."""
    y = model.features.index(model.target)
    theta = model.theta()
    means = np.delete(model.origin, y)
    return np.concatenate([[model.origin[y] - theta @ means], theta])
