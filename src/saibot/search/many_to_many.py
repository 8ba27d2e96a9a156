"""The paper's join search: every row of the request meets every row of a provider with the same key.

Each candidate's sketch is multiplied with the request's moments, key by key (the semi-ring's product), which gives the
moments of the joined table without building it; candidates are ranked by a lower bound on what R2 becomes. Step by step the
joined table takes the place of the request's.

**Errors.** R2 is a function of sums over keys, so its error is that of the sums of what every key adds to it (the sum of
their squares). This holds for the sampling of keys, and for the noise of both sides as well, which is independent from key
to key and part of what a key adds. A step is taken if the new features' slopes are clear of 0 by a test of the same kind, at
a level that accounts for all candidates, provider by provider (`saibot.search.looks_by_provider`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.special import fdtri, ndtri

from saibot.errors import InvalidInput
from saibot.estimate.many_to_many import JoinedMoments, joined
from saibot.estimate.moments import moments_of_sketch
from saibot.search.corpus import Corpus
from saibot.search.found import Found, SearchResult, TakenStep, with_providers
from saibot.search.key_maps import View, Views
from saibot.search.looks_by_provider import LooksByProvider, chosen_digests, chosen_providers, spread_out
from saibot.search.pairs import influence, noise_variance, wald_statistic
from saibot.search.request import SearchRequest
from saibot.search.units import Units, new_name
from saibot.semiring import Fit, Moments
from saibot.sketch import Feature, Sketch
from saibot.wire import Dropped, SearchOptions

SMALLEST_SCALE = 1e-100  # coefficients are divided by it
NOTES = (
    "many-to-many joins: rows of the request meet all rows of a provider with the same key, those without any are left out, "
    "and R² is that of the joined rows",
    "intervals are of keys like these: chance and the privacy noise of both sides together",
    "a many-to-many join has no value per key that `saibot augment` could add to rows: it takes the provider's rows",
)
UNBIASED = (
    "the unbiased estimate takes request and provider for columns of one table: the same rows on both sides, independent of "
    "each other, and a key that says nothing about the columns; what it does say is overstated by about the rows per key",
)
NO_UNIONS = "rows of other tables are not added in a search by many-to-many joins"


def check_joinable(request: SearchRequest) -> None:
    """Whether a request's moments can be joined many-to-many: they need products for every key."""
    for moments in (request.train, request.test):
        if moments is not None and request.key is not None and moments.key_products is None:
            raise InvalidInput(
                "a many-to-many join needs products per key, which the request's sketch does not hold.",
                hint="Privatise it with --layout semiring; a table that is searched with at home needs nothing.",
            )


class ManyToMany:
    """One many-to-many join after the other, each the best at its time."""

    def search(
        self,
        request: SearchRequest,
        corpus: Corpus,
        options: SearchOptions,
        *,
        progress: Callable[[str, float | None], None],
    ) -> SearchResult:
        if options.rank not in ("usable", SearchOptions().rank) or options.hops or options.shared:
            raise InvalidInput("many-to-many joins are ranked by their usable gain, without hops and shared columns.")
        check_joinable(request)
        work = _ManyToManySearch(request, corpus, options)
        base = work.table.fit.r2, work.table.test_r2
        stopped = f"{options.steps} steps were taken, as asked"
        for number in range(options.steps):
            why = work.step(f"step {number + 1}: joining {len(work.tables):,} tables", progress)
            if why is not None:
                stopped = why
                break
        notes = NOTES + (UNBIASED if work.unbiased else ()) + ((NO_UNIONS,) if options.unions else ())
        found = SearchResult(
            request=request.name,
            target=request.target,
            private=request.private,
            base_train_r2=base[0],
            base_test_r2=base[1],
            steps=tuple(work.steps),
            ranked=work.ranked,
            dropped=tuple(work.dropped),
            candidates=work.candidates,
            stopped=stopped,
            join=options.join,
            notes=notes,
        )
        return with_providers(found, corpus)


@dataclass(frozen=True)
class _Table:
    """The request, joined with what was taken: the sides of the join, its model, and how that does on held-out rows.

    A naive join is one side, over the request's finest keys; an unbiased one keeps its sides apart, over the keys of `view`.
    """

    train: tuple[Moments, ...]
    test: tuple[Moments, ...] | None
    target: str
    fit: Fit
    test_r2: float | None
    view: View | None = None

    @classmethod
    def of(cls, request: SearchRequest) -> _Table:
        own = tuple(name for name in request.train.features if name != request.target)
        fit = request.train.gram().fit(own, request.target, ridge=0.0)
        if request.test is None:
            return cls((request.train,), None, request.target, fit, None)
        test = request.test.select(request.train.features)
        return cls((request.train,), (test,), request.target, fit, test.gram().r2_of(fit))

    @cached_property
    def _influences(self) -> dict[int, tuple[View, np.ndarray]]:
        return {}

    def sides(self, view: View, *, test: bool = False) -> tuple[Moments, ...]:
        """The sides by the keys of a provider, without the catch-all, whose rows do not share a key."""
        held = self.test if test else self.train
        assert held is not None
        first = held[0].onto(view.index, view.size).at(np.arange(view.size - 1))
        return first, *held[1:]

    def influence(self, view: View) -> np.ndarray:
        """What each key of a provider adds to the current R2, the catch-all last."""
        if id(view) not in self._influences:
            if len(self.train) == 1:
                grouped = self.train[0].onto(view.index, view.size)
                found = influence(grouped.features, grouped.scatter, self.fit)
            else:
                now = joined(*self.sides(view), estimator="unbiased")
                found = np.append(influence(now.gram.features, now.scatter, self.fit), 0.0)
            self._influences[id(view)] = view, found
        return self._influences[id(view)][1]


@dataclass(frozen=True)
class _Scored:
    """A candidate with the table that it would make."""

    found: Found
    fit: Fit
    moments: Moments  # of the candidate, by its own keys
    view: View
    rank: float
    clear: bool
    provider: int


class _ManyToManySearch:
    """A search under way: the current table, what was taken, and what is left to take."""

    def __init__(self, request: SearchRequest, corpus: Corpus, options: SearchOptions) -> None:
        self.request, self.corpus, self.options = request, corpus, options
        self.unbiased = options.join == "many-to-many-unbiased"
        self.estimator: Literal["naive", "unbiased"] = "unbiased" if self.unbiased else "naive"
        self.table = _Table.of(request)
        self.steps: list[TakenStep] = []
        self.ranked: tuple[Found, ...] = ()
        self.dropped: list[Dropped] = []
        self.looks = LooksByProvider({})
        self.tables = self._reachable()
        self.candidates, self._levels = len(self.looks), self.looks.levels(1 - options.confidence)

    def _reachable(self) -> list[tuple[View, str]]:
        """The sketches that share a key with the request, by digest, with the view on their keys."""
        key = self.request.key if self.options.joins else None
        views = Views(key).all_of(self.corpus.key_ids) if key is not None else {}
        found, refused = [], {"own": set[str](), "provider": set[str](), "order": set[str](), "key": set[str]()}
        allowed = chosen_digests(self.corpus, chosen_providers(self.corpus, self.options))
        counts: dict[int, int] = {}
        for id in self.corpus.key_ids:
            for digest in sorted({str(one) for shard in self.corpus.shards(id) for one in shard.text["digest"]}):
                name = self.corpus.name_of(digest)
                if digest in self.request.own or name in self.request.own:
                    refused["own"].add(name)
                elif allowed is not None and digest not in allowed:
                    refused["provider"].add(name)
                elif id not in views:
                    refused["key"].add(name)
                elif (sketch := self.corpus.sketch(digest)).key_basis.order < 2:
                    refused["order"].add(name)
                else:
                    features = 1 if self.options.whole_datasets else len(sketch.header.features)
                    provider = self._provider(digest)
                    counts[provider] = counts.get(provider, 0) + features * len(views[id])
                    found += [(view, digest) for view in views[id]]
        verified = self.corpus.verified
        numbers = self.corpus.provider_numbers if verified else {}
        self.looks = LooksByProvider(counts, frozenset(numbers[name] for name in verified if name in numbers))
        reasons = {"own": "it is the request's own dataset", "key": "its key is no function of the request's key"}
        reasons["provider"] = "its provider is not one of those asked for"
        reasons["order"] = "it holds no products per key, which a many-to-many join needs (layout semiring)"
        for which, names in refused.items():
            if names:
                self.dropped.append(Dropped(reason=reasons[which], count=len(names), examples=tuple(sorted(names)[:3])))
        return found

    def _provider(self, digest: str) -> int:
        entry = self.corpus.entries([digest]).get(digest)
        return 0 if entry is None else self.corpus.provider_numbers.get(entry.provider, 0)

    def step(self, stage: str, progress: Callable[[str, float | None], None]) -> str | None:
        """Take the best candidate; if there is none to take, the reason."""
        first = not self.steps
        taken = {step.found.identity for step in self.steps}
        scored: list[_Scored] = []
        for number, (view, digest) in enumerate(self.tables):
            progress(stage, number / len(self.tables))
            scored += [one for one in self._score(view, digest) if one.found.identity not in taken]
        if not scored:
            return "every candidate has been taken" if taken else "no candidate shares a key with the request"
        scored.sort(key=lambda one: -one.rank)
        if first:
            whose, clear = [one.provider for one in scored], [one.clear for one in scored]
            shown = spread_out(range(len(scored)), whose, clear, self.options.shown)
            self.ranked = tuple(scored[place].found for place in shown)
            unclear = [one.found for one in scored if not one.clear]
            if unclear:
                names = tuple(f"{found.dataset}.{found.features[0]}" for found in unclear[:3])
                self.dropped.append(Dropped(reason="its gain is not clear of its noise", count=len(unclear), examples=names))
        best = scored[0] if first and self.options.always_first else next((one for one in scored if one.clear), None)
        if best is None:
            return "no further gain is clear of its noise"
        self._take(best)
        return None

    def _score(self, view: View, digest: str) -> Iterator[_Scored]:
        """All candidates of one sketch: each of its features, or all of them together."""
        if self.table.view is not None and self.table.view.parts != view.parts:
            return  # an unbiased estimate pairs tables on one key
        sketch = self.corpus.sketch(digest)
        facts = {f"{sketch.header.dataset.name}.{one.name}": one for one in sketch.header.features if _sound(one)}
        moments = moments_of_sketch(sketch).select(tuple(one.name for one in facts.values())).rename(tuple(facts))
        if len(moments) != view.size or not facts:
            return
        candidate = moments.at(np.arange(view.size - 1))
        whole = joined(*self.table.sides(view), candidate, estimator=self.estimator)
        named = dict(zip(whole.gram.features[-len(facts) :], facts, strict=True))
        for group in [tuple(named)] if self.options.whole_datasets else [(name,) for name in named]:
            chosen = moments.select(tuple(named[name] for name in group))
            yield self._scored(whole, group, view, sketch, tuple(facts[name] for name in chosen.features), chosen)

    def _scored(
        self,
        whole: JoinedMoments,
        group: tuple[str, ...],
        view: View,
        sketch: Sketch,
        facts: tuple[Feature, ...],
        moments: Moments,
    ) -> _Scored:
        table, target = self.table, self.request.target
        fit = whole.gram.fit((*table.fit.features, *group), target, ridge=0.0)
        counts = table.train[0].onto(view.index, view.size).counts[:-1]
        keys = int(np.count_nonzero(counts > 0))
        free = max(keys - 1 - len(fit.features), 1)
        gain = fit.r2 - table.fit.r2
        adds = influence(whole.gram.features, whole.scatter, fit) - table.influence(view)[:-1]
        error = float(np.sqrt(max(keys, 1) / free * (adds @ adds + table.influence(view)[-1] ** 2)))
        z = float(ndtri((1 + self.options.interval) / 2))
        lower, upper = max(gain - z * error, -1.0), min(gain + z * error, 1.0)
        provider = self._provider(sketch.digest)
        level = self._levels.get(provider, 0.0)
        wald = wald_statistic(whole, table.fit, fit, group)
        clear = lower > 0 and wald / len(group) > fdtri(len(group), free, 1 - level)
        header = sketch.header
        found = Found(
            kind="many-to-many",
            dataset=header.dataset.name,
            digest=sketch.digest,
            feature=facts[0].name if len(facts) == 1 else None,
            key=view.parts,
            gain=gain,
            lower=lower,
            upper=upper,
            coefficient=float(fit.coefficients[-1]) / facts[0].scale if len(facts) == 1 else None,
            reliability=None,
            rows=header.rows,
            note="" if clear else "its gain is not clear of its noise",
            coverage=min(max(float(counts.sum()) / max(table.train[0].count, 1.0), 0.0), 1.0),
            privacy_share=min(noise_variance(whole, fit) / error**2, 1.0) if error > 0 else 0.0,
            features=tuple(one.name for one in facts),
            units=tuple(Units(one.offset, one.scale) for one in facts),
            unit=tuple(one.unit for one in facts),
        )
        return _Scored(found, fit, moments, view, gain - self.options.ranking_quantile * error, bool(clear), provider)

    def _take(self, best: _Scored) -> None:
        view, candidate = best.view, best.moments.at(np.arange(best.view.size - 1))
        test_r2, test = None, None
        if self.table.test is not None:
            held_out = joined(*self.table.sides(view, test=True), candidate, estimator=self.estimator)
            # Names are numbered over all of a sketch's features when it is scored, over the chosen ones here.
            test_r2 = held_out.gram.r2_of(replace(best.fit, features=_explaining(held_out, self.request.target)))
            test = self._joined(self.table.test, candidate, view)
        train = self._joined(self.table.train, candidate, view)
        names = tuple(name for side in train for name in side.features if name != self.request.target)
        fit = replace(best.fit, features=names)
        self.table = _Table(train, test, self.request.target, fit, test_r2, view if self.unbiased else None)
        self.steps.append(TakenStep(best.found, fit.r2, test_r2, None, None))

    def _joined(self, sides: tuple[Moments, ...], candidate: Moments, view: View) -> tuple[Moments, ...]:
        if self.unbiased:
            taken = {name for side in sides for name in side.features}
            names = tuple(new_name(name, taken) for name in candidate.features)
            return *sides, candidate.rename(names)
        inside = np.where(view.index < view.size - 1, view.index, -1)
        return (sides[0] * candidate.at(inside),)


# ------------------------------------------------------------------------------------------------ inside


def _sound(feature: Feature) -> bool:
    """Whether the feature's values mean a number in original units."""
    return bool(np.isfinite([feature.offset, feature.scale]).all()) and feature.scale >= SMALLEST_SCALE


def _explaining(whole: JoinedMoments, target: str) -> tuple[str, ...]:
    return tuple(name for name in whole.gram.features if name != target)
