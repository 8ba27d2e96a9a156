"""Search a corpus, by the strategy that the options name or by one's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from saibot.errors import InvalidInput
from saibot.search.corpus import Corpus
from saibot.search.exhaustive import Exhaustive
from saibot.search.found import SearchResult
from saibot.search.greedy import Greedy, Progress
from saibot.search.many_to_many import ManyToMany
from saibot.search.request import SearchRequest
from saibot.wire import SearchOptions


class Strategy(Protocol):
    """How to look for a combination; implement it to try another."""

    def search(
        self, request: SearchRequest, corpus: Corpus, options: SearchOptions, *, progress: Progress
    ) -> SearchResult: ...


STRATEGIES: dict[str, type[Strategy]] = {"greedy": Greedy, "exhaustive": Exhaustive}


def search(
    request: SearchRequest,
    corpus: Corpus,
    options: SearchOptions | None = None,
    *,
    strategy: Strategy | None = None,
    progress: Progress = lambda stage, part: None,
) -> SearchResult:
    """Which published tables most improve the request's regression; `strategy` replaces the one that the options name."""
    if not len(corpus):
        raise InvalidInput("the corpus is empty.", hint="Add sketches to it first.")
    options = options or SearchOptions()
    if options.join != "lookup":
        if strategy is not None:
            raise InvalidInput("many-to-many joins are searched step by step.", hint="Leave the strategy out.")
        strategy = ManyToMany()
    found = (strategy or STRATEGIES[options.strategy]()).search(request, corpus, options, progress=progress)
    return replace(found, notes=(*found.notes, *_limits(options)))


def _limits(options: SearchOptions) -> tuple[str, ...]:
    """Whose datasets were looked at, where that was not everybody's."""
    whose = ["verified providers"] if options.verified else []
    whose += [f"the providers {', '.join(options.providers)}"] if options.providers else []
    return (f"only datasets of {' among '.join(whose)} were looked at",) if whose else ()
