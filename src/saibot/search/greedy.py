"""Greedy search: take the candidate whose gain is surest, add it to the model, and ask again.

Each step scores all candidates in one sweep and ranks them by a lower confidence bound, so that the largest noise does not
win. A step is taken only if its gain is above 0 by a bound that accounts for the number of candidates looked at, provider by
provider (`saibot.search.looks_by_provider`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from saibot.estimate.intervals import r2_interval, stop_quantile
from saibot.search.candidate import Candidate, Group, identity
from saibot.search.corpus import Corpus
from saibot.search.denoise import training_state
from saibot.search.engine import Best, Engine
from saibot.search.explain import Table, describe
from saibot.search.found import Found, SearchResult, TakenStep, with_providers
from saibot.search.looks_by_provider import chosen_digests, spread_out
from saibot.search.rankings import Ordered, ranking_named
from saibot.search.request import SearchRequest, Working
from saibot.search.state import State
from saibot.search.unions import Addition, UnionScore, additions, coefficients, describe_union, enlarged, score_union
from saibot.semiring import Moments
from saibot.wire import Dropped, SearchOptions

Progress = Callable[[str, float | None], None]
REASONS = 20  # why key domains were not reached, one by one


SCORING = 0.7  # of a step, the part that scoring takes; explaining takes the rest


def _step_progress(progress: Progress, number: int, steps: int) -> Progress:
    """From a part of one step to a part of all that may be taken."""
    return lambda stage, part: progress(f"step {number + 1}: {stage}", (number + (part or 0.0)) / steps)


class Greedy:
    """One step after the other, each the best at its time: a join or a union."""

    def search(self, request: SearchRequest, corpus: Corpus, options: SearchOptions, *, progress: Progress) -> SearchResult:
        work = _GreedySearch(request, corpus, options)
        base = work.train_r2(), work.test_r2()
        base_interval = work.test_interval()
        untouched = work.train
        stopped = f"{options.steps} steps were taken, as asked"
        for number in range(options.steps):
            work.tell = _step_progress(progress, number, options.steps)
            work.tell(f"scoring {len(work):,} candidates", 0.0)
            why = work.step(first=number == 0)
            if why is not None:
                stopped = why
                break
        found = SearchResult(
            request=request.name,
            target=request.target,
            private=request.private,
            base_train_r2=base[0],
            base_test_r2=base[1],
            base_test_interval=base_interval,
            steps=tuple(work.steps),
            ranked=work.ranked,
            dropped=work.dropped,
            candidates=len(work),
            stopped=stopped,
            unions=len(work.additions),
            rank=options.rank,
            interval_confidence=options.interval,
            first=untouched,
            final=work.train,
            table=work.table(),
            notes=work.engine.left_out,
        )
        return with_providers(found, corpus)


class _GreedySearch:
    """A search under way: the current table, what was taken, and what is left to take."""

    def __init__(self, request: SearchRequest, corpus: Corpus, options: SearchOptions) -> None:
        self.request, self.corpus, self.options = request, corpus, options
        self.engine = Engine(corpus, request if options.joins else replace(request, key=None), options)
        self._ordered = ranking_named(options.rank).order(self.engine, options)
        allowed = chosen_digests(corpus, self.engine.chosen)
        self.additions, self._refused = additions(request, corpus, allowed) if options.unions else ([], [])
        self.moments = request.train
        self.lookups: list[tuple[str, np.ndarray]] = []
        self.train, self.test = first_states(request)
        self.steps: list[TakenStep] = []
        self.ranked: tuple[Found, ...] = ()
        self.dropped: tuple[Dropped, ...] = ()
        self._joinable = True
        self.tell: Progress = lambda stage, part: None
        self.engine.hear(lambda part: self.tell(f"scoring {len(self):,} candidates", SCORING * part))
        self._working: Working | None = None
        if request.modelling is not None:
            self.additions = []  # rows of others cannot be fitted by it
            self._refit()
        known = corpus.entries(addition.digest for addition in self.additions)
        numbers = corpus.provider_numbers if known else {}
        self._union_providers = {digest: numbers.get(entry.provider, 0) for digest, entry in known.items()}
        whose = [self._union_providers.get(addition.digest, 0) for addition in self.additions]
        self.looks = self.engine.looks.and_of(whose)
        self._levels = self.looks.levels(1 - options.confidence)

    def __len__(self) -> int:
        return len(self.looks)

    def table(self) -> Table:
        """The training table as it is now."""
        return Table(self.moments, self.request.target, tuple(values for _, values in self.lookups), self.request.private)

    def train_r2(self) -> float:
        return self.train.r2() if self._working is None else self._working.train

    def test_r2(self) -> float | None:
        if self._working is not None:
            return self._working.test
        return self.test.r2_of(self.train) if self.test else None

    def test_interval(self) -> tuple[float, float] | None:
        """How far the held-out R2 can be off: with few rows, a private request's own noise may leave nothing of it."""
        if self.request.test is None or self._working is not None:
            return None
        test = self.request.test.select(self.request.train.features)
        found = r2_interval(
            test,
            own=tuple(name for name in test.features if name != self.request.target),
            target=self.request.target,
            values=np.column_stack([values for _, values in self.lookups]) if self.lookups else None,
            theta=coefficients(self.train),
            source="test",
            confidence=self.options.interval,
            sampling="rows" if test.exact else None,
        )
        return max(found.lower, -1.0), min(max(found.upper, -1.0), 1.0)

    def step(self, *, first: bool) -> str | None:
        """Take the best candidate; if there is none to take, the reason."""
        join = self._best_join(first=first)
        union = self._best_union(first=first)
        if join is None and union is None:
            return "every candidate has been taken" if self.steps else "no candidate shares a key with the request"
        take_first = first and self.options.always_first
        if union is not None and self._union_is_clear(*union[:2]) and (join is None or union[1].gain > join[1].lower):
            self._take_union(union[0], union[2])
        elif join is not None and (take_first or join[2]):
            self._take_join(join[0], join[1])
        else:
            return "no further gain is clear of its noise"
        return None

    def _best_join(self, *, first: bool) -> tuple[Group, Found, bool] | None:
        if not self._joinable or not len(self.engine):
            if first:
                self.dropped = (*explain_unreachable(self.engine, self.corpus), *self._refused)
            return None
        taken = {step.found.identity for step in self.steps}
        ordered: Ordered = self._ordered(self.train, self.options.shown + len(taken), self._levels)
        best, order = ordered.best, ordered.first
        table = self.table()
        clear = best.board.clear(np.arange(len(best.groups)), self._levels)
        if first:
            expected = dict(order)
            shown = spread_out([*expected], self._providers(best), clear.tolist(), self.options.shown)
            ranked = []
            for number, place in enumerate(shown):
                self.tell(f"explaining the first {len(shown):,}", SCORING + (1 - SCORING) * number / len(shown))
                ranked.append(self._described(table, best.groups[place], expected[place]))
            self.ranked = tuple(ranked)
            self.dropped = (*best.aside(), *explain_unreachable(self.engine, self.corpus), *self._refused)
        left = [(place, expected) for place, expected in order if identity(best.groups[place]) not in taken]
        # The first whose gain is clear: a best guess may put one before it whose gain is not.
        sure = [(place, gain) for place, gain in left if clear[place]]
        whose = self._providers(best)
        for place, gain in sure if not (first and self.options.always_first) else ():
            group = best.groups[place]
            found = self._described(table, group, gain)
            # The sweep's error is an estimate: what the exact interval leaves open is not taken, whatever it says.
            if found.lower > 0 and self._helps(group, whose[place]):
                return group, found, True
        for place, gain in left[:1]:
            group = best.groups[place]
            return group, self._described(table, group, gain), False
        return None

    def _providers(self, best: Best) -> list[int]:
        providers = best.board.providers
        return [0] * len(best.groups) if providers is None else [int(one) for one in providers]

    def _quantile(self, provider: int) -> float:
        """How many errors a gain of a provider's candidate must clear."""
        return stop_quantile(self._levels.get(provider, 0.0), 1)

    def _described(self, table: Table, group: Group, expected: float | None) -> Found:
        found = describe(table, group, self.options, expected=expected)
        return found if self._working is None else found.rescaled(self.train.fit.tss / self.train.tss)

    def _helps(self, group: Group, provider: int) -> bool:
        modelling = self.request.modelling
        if modelling is None:
            return True
        values = np.array([candidate.values() for candidate in group])
        return modelling.helps(values, [values for _, values in self.lookups], self._quantile(provider))

    def _refit(self) -> None:
        """The request's own model, with the columns that were taken so far."""
        assert self.request.modelling is not None
        self._working = self.request.modelling.working([values for _, values in self.lookups])
        self.moments = self._working.moments
        self.train = replace(self._rebuilt(self.moments), scale=self._working.scale)

    def _best_union(self, *, first: bool) -> tuple[Addition, UnionScore, State] | None:
        taken = {step.found.digest for step in self.steps}
        best: tuple[Addition, UnionScore, State] | None = None
        quantile = self.options.ranking_quantile
        for addition in self.additions:
            if self.test is None or addition.digest in taken or (self.lookups and not addition.keyed):
                continue
            after = self._rebuilt(enlarged(self.moments, addition))
            found = score_union(self.train, after, self.test, self._held_out().product_noise)
            if first:
                self._rank_union(self._describe_union(addition, after))
            if best is None or found.lower(quantile) > best[1].lower(quantile):
                best = addition, found, after
        return best

    def _rank_union(self, found: Found) -> None:
        """Among the joins, before the first whose bound is lower."""
        place = next((i for i, other in enumerate(self.ranked) if other.lower < found.lower), len(self.ranked))
        self.ranked = (*self.ranked[:place], found, *self.ranked[place:])[: self.options.shown]

    def _describe_union(self, addition: Addition, after: State) -> Found:
        values = [values for _, values in self.lookups]
        return describe_union(addition, self.train, after, self._held_out(), values, self.options.interval)

    def _held_out(self) -> Moments:
        assert self.request.test is not None
        return self.request.test.select(self.moments.features)

    def _union_is_clear(self, addition: Addition, found: UnionScore) -> bool:
        return found.lower(self._quantile(self._union_providers.get(addition.digest, 0))) > 0

    def _rebuilt(self, moments: Moments) -> State:
        """The enlarged table around its own means, with the lookups that were taken."""
        state = training_state(moments, self.request.target)
        for name, values in self.lookups:
            state = state.with_lookup(name, values, centre=state.centre_of(values))
        return state

    def _take_join(self, group: Group, found: Found) -> None:
        for candidate in group:
            values, name = candidate.values(), column_name(candidate, self.train)
            centre = self.train.centre_of(values)
            self.lookups.append((name, values))
            self.train = self.train.with_lookup(name, values, centre=centre)
            self.test = self.test.with_lookup(name, values, centre=centre) if self.test else None
        if self.request.modelling is not None:
            self._refit()
        values = np.array([values for _, values in self.lookups[-len(group) :]])
        self.steps.append(TakenStep(found, self.train_r2(), self.test_r2(), self.test_interval(), values))

    def _take_union(self, addition: Addition, after: State) -> None:
        found = self._describe_union(addition, after)
        self.moments, self.train = enlarged(self.moments, addition), after
        self._joinable = self._joinable and addition.keyed
        self.steps.append(TakenStep(found, self.train.r2(), self.test_r2(), self.test_interval(), None))


def first_states(request: SearchRequest) -> tuple[State, State | None]:
    """Training and test table before any augmentation, both around the training table's means."""
    train = training_state(request.train, request.target)
    if request.test is None:
        return train, None
    test = request.test.select(request.train.features)
    return train, State.of(test, request.target, origin=request.train.means)


def explain_unreachable(engine: Engine, corpus: Corpus) -> tuple[Dropped, ...]:
    """For each key domain that was considered in vain, why; beyond a few, what is left in one line."""
    reasons: dict[str, list[str]] = {}
    for id, why in engine.unreachable.items():
        few = why if why in reasons or len(reasons) < REASONS else "their key domains are others still"
        reasons.setdefault(few, []).append(id)
    answers = []
    for why, ids in reasons.items():
        shards = [shard for id in ids for shard in corpus.readable_shards(id)]
        names = {str(name) for shard in shards for name in shard.text["dataset"][:3]}
        reason = f"its key is no function of the request's key: {why}"
        answers.append(Dropped(reason=reason, count=sum(map(len, shards)), examples=tuple(sorted(names)[:3])))
    return tuple(answers)


def column_name(candidate: Candidate, state: State) -> str:
    """`dataset.feature`, told apart where it is there already."""
    name = f"{candidate.dataset}.{candidate.feature}"
    number = 2
    while name in state.features:
        name, number = f"{candidate.dataset}.{candidate.feature}.{number}", number + 1
    return name
