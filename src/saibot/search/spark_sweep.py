"""A corpus swept by Spark: tasks open shards by their paths, and the best candidates of each task come back.

The driver opens no shard but those of candidates that it shows. What a step needs of the request, a few sums per key, is
broadcast. A task does what a search on one machine does (`saibot.search.parts`), with the shards that it was given; its
process keeps them mapped for the next step. Spark repeats the tasks of an executor that is lost, elsewhere.

Executors need this version of saibot, and see the corpus's folder under the same path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from saibot import __version__
from saibot.errors import InvalidInput
from saibot.search.board import Board, Shortlist, WantedBest
from saibot.search.looks_by_provider import added
from saibot.search.parts import EXAMPLES, LEFT_ASIDE, PartSweep, ShardPart, readable
from saibot.search.scoring import Base
from saibot.search.shard import ShardRows, open_shard
from saibot.wire import Dropped

TASK_VALUES = 1_000_000_000  # a larger share of the values, 4 GB, makes more tasks than there are cores
MOST_TASKS = 4  # for every core
MOST_KEPT = 4096  # shards that a process of Spark's keeps mapped

Chunk = Sequence[tuple[int, int, str]]  # parts: their number, the number of their view, and the name of the shard's file


@dataclass(frozen=True)
class Reading:
    """How shards are read: what is the same for all tasks of a search."""

    folder: str
    stamp: tuple[str, int]  # of the corpus: another one after every change
    sizes: tuple[int, ...]  # keys of each view
    own: tuple[str, ...]
    whole_datasets: bool
    hidden: frozenset[str] = frozenset()
    chosen: frozenset[int] | None = None  # providers that the search is limited to
    version: str = __version__


@dataclass(frozen=True)
class Surveyed:
    """What a task says of its parts: how many candidates each has, which are not looked at, whose the others are, and what
    cannot be read."""

    sizes: dict[int, int]
    left_out: dict[int, np.ndarray]
    looks: dict[int, int]
    problems: dict[str, InvalidInput]


@dataclass(frozen=True)
class TaskBest:
    """The best candidates of a task: the numbers of their parts, their places there, and their scores."""

    parts: np.ndarray
    places: np.ndarray
    board: Board
    aside: tuple[Dropped, ...]
    problems: dict[str, InvalidInput]


class SparkSweep:
    """The parts of a corpus, read by Spark's tasks; `made` are a few more, which no file holds, swept here."""

    def __init__(
        self,
        context: Any,
        reading: Reading,
        files: Sequence[tuple[int, str]],
        made: Sequence[ShardPart],
        *,
        opened: Callable[[int, str], ShardPart],
        problems: dict[str, InvalidInput],
    ) -> None:
        """`files` are the view and the name of every shard; what cannot be read is added to `problems`, now and later."""
        self._context, self._reading, self._opened, self._problems = context, reading, opened, problems
        self._made = PartSweep(made)
        everything = [(number, view, name) for number, (view, name) in enumerate(files)]
        surveyed = self._run(survey, reading, _chunks(everything, np.ones(len(files)), self._cores))
        sizes = {number: size for one in surveyed for number, size in one.sizes.items()}
        left_out = {number: places for one in surveyed for number, places in one.left_out.items()}
        self._files = [file for file in everything if file[0] in sizes]
        self.starts = np.cumsum([0, *(sizes[number] for number, _, _ in self._files), *map(len, made)])
        numbers = [left_out[number] + start for (number, _, _), start in zip(self._files, self.starts, strict=False)]
        self.left_out = np.concatenate([*numbers, self._made.left_out + self.starts[len(self._files)]]).astype(np.intp)
        self._looks = added([*(one.looks for one in surveyed), self._made.looks()])
        self._weights = np.array([sizes[number] * reading.sizes[view] for number, view, _ in self._files], dtype=np.float64)

    def part(self, number: int) -> ShardPart:
        if number >= len(self._files):
            return self._made.part(number - len(self._files))
        _, view, name = self._files[number]
        return self._opened(view, name)

    def looks(self) -> dict[int, int]:
        return self._looks

    def shortlist(self, bases: Mapping[int, Base], wanted: WantedBest) -> Shortlist:
        files = [(place, view, name) for place, (_, view, name) in enumerate(self._files)]
        answers = self._run(sweep_chunk, (self._reading, bases, wanted), _chunks(files, self._weights, self._cores))
        found = [(self.starts[one.parts] + one.places, one.board) for one in answers]
        reasons = [one.aside for one in answers]
        if self._made.parts:
            here = self._made.shortlist(bases, wanted)
            found.append((here.numbers + self.starts[len(self._files)], here.board))
            reasons.append(here.aside())
        numbers, board = _merged(found)
        in_order = np.argsort(numbers, kind="stable")  # among equals the earlier comes first, as it does on one machine
        numbers, board = numbers[in_order], board.only(in_order)
        listed = board.listed(wanted, np.zeros(0, np.intp))
        return Shortlist(numbers[listed], board.only(listed), partial(_all_reasons, reasons))

    @property
    def _cores(self) -> int:
        """Of the whole cluster, as far as its executors have come up."""
        return int(self._context.defaultParallelism)

    def _run(self, work: Callable[[Any, Chunk], Any], terms: Any, chunks: list[Chunk]) -> list[Any]:
        """What `work` says of each chunk, in order; `terms` are sent to every executor once."""
        shared = self._context.broadcast(terms)
        try:
            tasks = self._context.parallelize(chunks, max(len(chunks), 1))
            answers: list[Any] = tasks.map(partial(_at_work, work, shared)).collect()
        except Exception as problem:
            raise InvalidInput(
                f"Spark gave the search up ({type(problem).__name__}).",
                hint="Executors need this version of saibot, and see the corpus under the same path; their logs say more.",
            ) from None
        finally:
            shared.unpersist()
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
            self._problems.update(answer.problems)
        return answers


# ------------------------------------------------------------------------------------------------ in tasks


def _at_work(work: Callable[[Any, Chunk], Any], shared: Any, chunk: Chunk) -> Any:
    """What is wrong with the request or the corpus comes back as an answer: Spark would try it again."""
    try:
        return work(shared.value, chunk)
    except (FileNotFoundError, InvalidInput) as problem:
        return problem


def survey(reading: Reading, chunk: Chunk) -> Surveyed:
    if reading.version != __version__:
        raise InvalidInput(
            f"an executor of Spark's runs saibot {__version__}, and this is {reading.version}.",
            hint="Install the same version on all machines.",
        )
    parts, problems = _readable(reading, chunk)
    sizes = {number: len(part) for number, part in parts.items()}
    left_out = {number: part.left_out for number, part in parts.items()}
    return Surveyed(sizes, left_out, added(part.looks() for part in parts.values()), problems)


def sweep_chunk(terms: tuple[Reading, Mapping[int, Base], WantedBest], chunk: Chunk) -> TaskBest:
    reading, bases, wanted = terms
    parts, problems = _readable(reading, chunk)
    swept = PartSweep([*parts.values()])
    best = swept.shortlist(bases, wanted)
    numbers = np.array([*parts], dtype=np.intp)
    places = np.array([swept.place(int(number)) for number in best.numbers], dtype=np.intp).reshape(-1, 2)
    return TaskBest(numbers[places[:, 0]], places[:, 1], best.board, best.aside(), problems)


def _readable(reading: Reading, chunk: Chunk) -> tuple[dict[int, ShardPart], dict[str, InvalidInput]]:
    """The parts of a chunk by their numbers."""
    found, problems = readable([(view, name) for _, view, name in chunk], partial(_kept_part, reading))
    return {chunk[place][0]: part for place, part in found.items()}, problems


_stamps: dict[str, tuple[str, int]] = {}
_rows: dict[tuple[str, str], ShardRows] = {}
_parts: dict[tuple[Reading, int, str], ShardPart] = {}


def _kept_part(reading: Reading, view: int, name: str) -> ShardPart:
    """A shard as this process has it mapped already, or opened. When a corpus has changed all are let go of: what was
    withdrawn is not held any longer than it takes to notice."""
    if _stamps.get(reading.folder) != reading.stamp or max(len(_rows), len(_parts)) >= MOST_KEPT:
        _rows.clear()
        _parts.clear()
        _stamps[reading.folder] = reading.stamp
    file, key = (reading.folder, name), (reading, view, name)
    if file not in _rows:
        _rows[file] = open_shard(Path(*file))
    if key not in _parts:
        rows = _rows[file].without(reading.hidden)
        size, whole = reading.sizes[view], reading.whole_datasets
        _parts[key] = ShardPart.of(view, size, rows, own=reading.own, whole_datasets=whole, chosen=reading.chosen)
    return _parts[key]


# ------------------------------------------------------------------------------------------------ on the driver


def _chunks(files: Chunk, weights: np.ndarray, cores: int) -> list[Chunk]:
    """The files in order, in about equal parts by weight (values to sweep): one for every core, or more of large ones."""
    total = float(weights.sum())
    count = min(len(files), MOST_TASKS * cores, max(cores, int(total / TASK_VALUES)))
    if not count:
        return []
    middles = np.cumsum(weights) - weights / 2
    of_each = np.minimum((middles / total * count).astype(int), count - 1)
    chunks = [[file for file, chosen in zip(files, of_each, strict=True) if chosen == number] for number in range(count)]
    return [chunk for chunk in chunks if chunk]


def _merged(found: Sequence[tuple[np.ndarray, Board]]) -> tuple[np.ndarray, Board]:
    """All of them one after the other."""
    some = [(numbers, board) for numbers, board in found if len(numbers)]
    if not some:
        nothing = np.zeros(0)
        return np.zeros(0, np.intp), Board(nothing, nothing, nothing, nothing, nothing)
    boards = [board for _, board in some]

    def column(name: str) -> Any:
        parts = [getattr(board, name) for board in boards]
        return None if any(part is None for part in parts) else np.concatenate(parts)

    names = ("gain", "lower", "deviation", "coefficient", "keys", "features", "wald", "ordered_by", "providers")
    ranks = [board.rank for board in boards if board.rank is not None]
    rank = (np.concatenate([gain for gain, _ in ranks]), np.concatenate([lower for _, lower in ranks])) if ranks else None
    return np.concatenate([numbers for numbers, _ in some]), Board(rank=rank, **{name: column(name) for name in names})


def _all_reasons(parts: Sequence[Sequence[Dropped]]) -> tuple[Dropped, ...]:
    """The same reasons of all tasks together, counted, with the first examples."""
    together: dict[str, list[Dropped]] = {}
    for dropped in (one for part in parts for one in part):
        together.setdefault(dropped.reason, []).append(dropped)
    found = []
    for reason in (reason for reason in LEFT_ASIDE if reason in together):
        examples = tuple(name for one in together[reason] for name in one.examples)[:EXAMPLES]
        found.append(Dropped(reason=reason, count=sum(one.count for one in together[reason]), examples=examples))
    return tuple(found)
