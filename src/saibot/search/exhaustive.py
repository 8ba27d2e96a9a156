"""Every combination of a few candidates: to measure what greedy search loses, where that can be afforded at all."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np

from saibot.errors import InvalidInput
from saibot.search.corpus import Corpus
from saibot.search.engine import Engine
from saibot.search.explain import Table, describe
from saibot.search.found import SearchResult, TakenStep, with_providers
from saibot.search.greedy import Greedy, Progress, column_name, first_states
from saibot.search.request import SearchRequest
from saibot.search.state import State
from saibot.wire import SearchOptions

MOST_COMBINATIONS = 200_000


class Exhaustive:
    """The combination of at most `steps` joins with the largest R2 (on the test part, where there is one).

    It looks for the largest number, without a stop rule: an upper limit for what any search could report.
    """

    def search(self, request: SearchRequest, corpus: Corpus, options: SearchOptions, *, progress: Progress) -> SearchResult:
        engine = Engine(corpus, request, options)
        numbers = [number for number in range(len(engine)) if number not in engine.left_aside]
        most = min(options.steps, len(numbers))
        wanted = sum(comb(len(numbers), size) for size in range(1, most + 1))
        if wanted > MOST_COMBINATIONS:
            raise InvalidInput(
                f"exhaustive search would try {wanted:,} combinations, at most {MOST_COMBINATIONS:,} are allowed.",
                hint="Search greedily, or with fewer steps or candidates.",
            )
        train, test = first_states(request)
        best: tuple[float, tuple[int, ...]] = (_judge(train, test), ())
        for size in range(1, most + 1):
            for number, chosen in enumerate(combinations(numbers, size)):
                if number % 500 == 0:
                    progress(f"trying combinations of {size}", number / comb(len(numbers), size))
                joined = _joined(engine, chosen, train, test)
                best = max(best, (_judge(*joined), chosen))
        first = Greedy().search(request, corpus, options.but(steps=1), progress=progress)
        steps: list[TakenStep] = []
        lookups: list[np.ndarray] = []
        for size in range(1, len(best[1]) + 1):
            group = engine.group(best[1][size - 1])
            after, held_out = _joined(engine, best[1][:size], train, test)
            table = Table(request.train, request.target, tuple(lookups), request.private)
            found = describe(table, group, options)
            lookups += [candidate.values() for candidate in group]
            test_r2 = held_out.r2_of(after) if held_out else None
            steps.append(TakenStep(found, after.r2(), test_r2, None, np.array(lookups[-len(group) :])))
        final, _ = _joined(engine, best[1], train, test)
        table = Table(request.train, request.target, tuple(lookups), request.private)
        all_tried = replace(first, steps=tuple(steps), stopped="every combination was tried", final=final, table=table)
        return with_providers(all_tried, corpus)


def _joined(engine: Engine, chosen: tuple[int, ...], train: State, test: State | None) -> tuple[State, State | None]:
    for candidate in (candidate for number in chosen for candidate in engine.group(number)):
        values, name = candidate.values(), column_name(candidate, train)
        centre = train.centre_of(values)
        train = train.with_lookup(name, values, centre=centre)
        test = test.with_lookup(name, values, centre=centre) if test else None
    return train, test


def _judge(train: State, test: State | None) -> float:
    return test.r2_of(train) if test else train.r2()
