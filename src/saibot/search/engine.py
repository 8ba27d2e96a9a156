"""A request's views on a corpus, and who scores their candidates: threads of this machine, its GPU, or a Spark cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from saibot.errors import InvalidInput
from saibot.extras import how_to_install
from saibot.search.board import Board, Shortlist, WantedBest
from saibot.search.candidate import Candidate, Group
from saibot.search.corpus import Corpus
from saibot.search.device_sweep import DeviceSweep, gpu_is_there
from saibot.search.hops import hop_shards
from saibot.search.key_maps import View, Views
from saibot.search.looks_by_provider import LooksByProvider, chosen_providers
from saibot.search.parts import PartSweep, ShardPart, readable
from saibot.search.request import SearchRequest
from saibot.search.scoring import Base
from saibot.search.shard import ShardRows
from saibot.search.state import State
from saibot.spark_session import check_spark
from saibot.wire import Dropped, SearchOptions
from saibot.wire.options import EngineName


class Sweep(Protocol):
    """Who scores candidates, which are numbered through all parts."""

    starts: np.ndarray  # the number of each part's first candidate; the last entry is how many there are

    @property
    def left_out(self) -> np.ndarray:
        """The numbers of those that are not looked at: the requester's own, and of providers that were not asked for."""

    def looks(self) -> dict[int, int]:
        """How many candidates of each provider are looked at."""

    def part(self, number: int) -> ShardPart:
        """One of the parts, opened here."""

    def shortlist(self, bases: Mapping[int, Base], wanted: WantedBest) -> Shortlist:
        """One step; `bases` are the current model as each view sees it."""


@dataclass(frozen=True)
class Best:
    """The first candidates of a step, best first: who they are, and their scores in the same order."""

    groups: tuple[Group, ...]
    board: Board
    aside: Callable[[], tuple[Dropped, ...]]  # why others are not taken


def check_engine(name: EngineName) -> None:
    """Whether an engine is to be had here; told before a platform opens, too."""
    if name == "gpu" and not gpu_is_there():
        raise InvalidInput(
            "no GPU is to be had here.", hint=f"{how_to_install('gpu')} where there is one, or --engine threads."
        )
    if name == "spark":
        check_spark()


class Engine:
    """Everything of a corpus that a request can be joined with."""

    def __init__(self, corpus: Corpus, request: SearchRequest, options: SearchOptions) -> None:
        self.corpus, self.key = corpus, request.key
        known = Views(request.key, corpus) if request.key is not None else None
        reached = known.all_of(corpus.key_ids) if known is not None else {}
        self._views: list[View] = [view for views in reached.values() for view in views]
        numbers = {id(view): number for number, view in enumerate(self._views)}
        self._files = [
            (numbers[id(view)], name) for key in reached for view in reached[key] for name in corpus.shard_names(key)
        ]
        made: list[tuple[View, ShardRows]] = []  # what no file holds
        if options.shared:
            columns = {key: rows for key in reached if (rows := corpus.shared_columns(key)) is not None}
            made += [(view, columns[key]) for key in columns for view in reached[key]]
        if options.hops and known is not None:
            made += hop_shards(corpus, known)
        for view, _ in made:
            if id(view) not in numbers:
                numbers[id(view)] = len(self._views)
                self._views.append(view)
        self._own, self._whole_datasets = request.own, options.whole_datasets
        self.chosen = chosen_providers(corpus, options)
        parts = [part for view, rows in made if len(part := self._part(numbers[id(view)], rows))]
        self._problems: dict[str, InvalidInput] = {}
        self._sweep = self._on_spark(options, parts) if options.engine == "spark" else self._here(options, parts)
        if self._problems and not len(self):
            raise next(iter(self._problems.values()))
        self.left_aside = frozenset(self._sweep.left_out.tolist())
        self.looks = LooksByProvider(self._sweep.looks(), self._verified())
        self.for_new_keys = options.gain != "known" and request.key is not None and not request.private
        self.unreachable = {  # key domains, and why the request does not reach them
            key: "the request has no key" if known is None else known.why_not(key)
            for key in corpus.key_ids
            if key not in reached
        }

    def __len__(self) -> int:
        return int(self._sweep.starts[-1])

    def hear(self, tell: Callable[[float], None]) -> None:
        """Tell how much of each sweep is done, where it is done here: a cluster tells when all of it is."""
        if isinstance(self._sweep, PartSweep):
            self._sweep.tell = tell

    @property
    def left_out(self) -> tuple[str, ...]:
        """What the answer is without, for people."""
        names = sorted({Path(name).name for name in self._problems})
        return tuple(f"without the shard {name}, which cannot be read: `saibot pack` makes it anew" for name in names)

    def group(self, number: int) -> Group:
        """The features of a candidate."""
        number_of_part = int(np.searchsorted(self._sweep.starts, number, side="right")) - 1
        part = self._sweep.part(number_of_part)
        view = self._views[part.view]
        rows = part.rows_of(int(number - self._sweep.starts[number_of_part]))
        return tuple(Candidate(view, part.rows, row) for row in rows)

    def candidate(self, number: int) -> Candidate:
        """The (first) feature of a candidate."""
        return self.group(number)[0]

    def best(self, state: State, wanted: WantedBest) -> Best:
        """One step: everything is scored, and the first come back."""
        found = self._sweep.shortlist(self._bases(state), wanted)
        return Best(tuple(self.group(int(number)) for number in found.numbers), found.board, found.aside)

    def board(self, state: State, *, quantile: float, potential: bool = False) -> Board:
        """The scores of all candidates, where they are swept on this machine; by usable gain, or by potential gain."""
        assert isinstance(self._sweep, PartSweep)
        return self._sweep.board(self._bases(state), quantile, potential=potential)

    # -------------------------------------------------------------------------------------------- inside

    def _verified(self) -> frozenset[int]:
        numbers = self.corpus.provider_numbers if self.corpus.verified else {}
        return frozenset(numbers[name] for name in self.corpus.verified if name in numbers)

    def _bases(self, state: State) -> dict[int, Base]:
        return {number: state.base(view.index, view.size) for number, view in enumerate(self._views)}

    def _part(self, view: int, rows: ShardRows) -> ShardPart:
        size = self._views[view].size
        return ShardPart.of(view, size, rows, own=self._own, whole_datasets=self._whole_datasets, chosen=self.chosen)

    def _opened(self, view: int, name: str) -> ShardPart:
        return self._part(view, self.corpus.shard(name))

    def _here(self, options: SearchOptions, made: list[ShardPart]) -> Sweep:
        """Threads, or a GPU: `auto` takes one where torch is there and sees it."""
        check_engine(options.engine)
        found, self._problems = readable(self._files, self._opened)
        here = options.engine == "threads" or options.whole_datasets or not gpu_is_there()
        return (PartSweep if here else DeviceSweep)([*found.values(), *made])

    def _on_spark(self, options: SearchOptions, made: list[ShardPart]) -> Sweep:
        from saibot.search.spark_sweep import Reading, SparkSweep
        from saibot.spark_session import spark_context

        reading = Reading(
            folder=str(self.corpus.folder.absolute() / "shards"),
            stamp=self.corpus.stamp,
            sizes=tuple(view.size for view in self._views),
            own=self._own,
            whole_datasets=self._whole_datasets,
            hidden=self.corpus.hidden,
            chosen=self.chosen,
        )
        context = spark_context(options.master)
        return SparkSweep(context, reading, self._files, made, opened=self._opened, problems=self._problems)
