"""The parts of a corpus that a request reaches, swept where this process runs.

This is the one place where candidates are scored. A search on this machine sweeps all parts with it, and a task of Spark's
(`saibot.search.spark_sweep`) those that it was given: so both find the same candidates with the same scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from saibot.errors import InvalidInput
from saibot.search.board import Board, Shortlist, WantedBest
from saibot.search.looks_by_provider import added, counted
from saibot.search.potential import potential_scores
from saibot.search.scored_sweep import scored_sweep
from saibot.search.scoring import Base
from saibot.search.shard import ShardRows
from saibot.search.sweep import sweep
from saibot.search.whole_datasets import dataset_groups, score_datasets
from saibot.wire import Dropped

SMALLEST_SCALE = 1e-100  # coefficients are divided by it
SILENT = 0.02  # least share of a feature's spread that must be signal for its values to say anything
LEFT_ASIDE = (  # why a candidate is not taken
    "it is the request's own dataset",
    "its provider is not one of those asked for",
    "its values are all noise at this key: too few rows per key for the budget",
    "its gain is not clear of its noise",
)
EXAMPLES = 3  # candidates named for each reason to be left aside


@dataclass(frozen=True)
class ShardPart:
    """The rows of one shard that a request reaches by one of its views, which are numbered."""

    view: int
    rows: ShardRows
    groups: tuple[np.ndarray, np.ndarray] | None  # first row and rows of each dataset, where those are candidates
    own: np.ndarray  # which candidates are the requester's own datasets
    others: np.ndarray  # which are of providers that were not asked for
    providers: np.ndarray  # the number of each candidate's provider

    @classmethod
    def of(
        cls,
        view: int,
        size: int,
        rows: ShardRows,
        *,
        own: Sequence[str] = (),
        whole_datasets: bool = False,
        chosen: frozenset[int] | None = None,
    ) -> ShardPart:
        """`size` is the number of keys of the view; `own` are digests and names of the requester's own datasets, `chosen`
        the numbers of the providers that the search is limited to."""
        rows = _sound(size, rows)
        groups = dataset_groups(rows) if whole_datasets else None
        mine, providers = rows.named(own), rows.providers
        if groups is not None:
            mine, providers = mine[groups[0]], providers[groups[0]]
        not_asked = np.zeros(len(mine), bool) if chosen is None else ~np.isin(providers, sorted(chosen))
        return cls(view, rows, groups, np.flatnonzero(mine), np.flatnonzero(not_asked & ~mine), providers)

    def __len__(self) -> int:
        return len(self.rows) if self.groups is None else len(self.groups[0])

    @cached_property
    def left_out(self) -> np.ndarray:
        """Candidates that are not looked at."""
        return np.concatenate([self.own, self.others])

    def looks(self) -> dict[int, int]:
        """How many candidates of each provider are looked at."""
        return counted(self.providers, self.left_out)

    def rows_of(self, place: int) -> range:
        """The rows of one candidate."""
        if self.groups is None:
            return range(place, place + 1)
        first = int(self.groups[0][place])
        return range(first, first + int(self.groups[1][place]))

    def label(self, place: int) -> str:
        rows = self.rows_of(place)
        name = self.rows.cell("dataset", rows[0])
        return f"{name}.{self.rows.cell('feature', rows[0])}" if len(rows) == 1 else name

    @cached_property
    def silent(self) -> np.ndarray:
        """Which candidates are all noise at this key; of several features the clearest counts."""
        columns = [self.rows.numbers[name] for name in ("spread", "reliability")]
        if self.groups is not None and len(self.rows):
            columns = [np.maximum.reduceat(column, self.groups[0]) for column in columns]
        return silent(*columns)

    def scores(self, base: Base, quantile: float, *, potential: bool) -> dict[str, np.ndarray]:
        """The columns of a board, of this part's candidates."""
        if self.groups is None:
            columns = dict(vars(scored_sweep(self.rows.values, base, quantile=quantile)))
            if potential:
                columns |= self.potential(columns, base, quantile)
        else:
            starts, sizes = self.groups
            first, _ = sweep(self.rows.values, base.linear, base.square)
            joint = score_datasets(self.rows, first, starts, sizes, base, quantile=quantile)
            # Of datasets the potential is ranked as far as the usable gain is clear of its noise.
            share = joint.lower / np.maximum(joint.gain, 1e-300)
            columns = {name: getattr(joint, name) for name in ("gain", "lower", "deviation", "wald", "potential")}
            columns |= {"features": sizes, "potential_lower": joint.potential * share}
            columns["coefficient"] = np.full(len(sizes), np.nan)
        return columns | {"keys": np.broadcast_to(base.keys, len(columns["gain"]))}

    def potential(self, scores: Mapping[str, np.ndarray], base: Base, quantile: float) -> dict[str, np.ndarray]:
        """What raw means would gain, and how much of it is sure."""
        # One hop further a value is a mean over many keys: what is unknown of each is nearly averaged out.
        known = "via" in self.rows.text
        reliability = np.ones(len(self.rows)) if known else self.rows.numbers["reliability"]
        gain, lower = potential_scores(scores["gain"], scores["deviation"], base, reliability=reliability, quantile=quantile)
        return {"potential": gain, "potential_lower": lower}


class PartSweep:
    """Parts whose candidates are numbered through all of them, swept by this process's threads."""

    def __init__(self, parts: Sequence[ShardPart]) -> None:
        self.parts = parts
        self.starts = np.cumsum([0, *(len(part) for part in parts)])
        self.tell: Callable[[float], None] = lambda part: None  # hears how much of a sweep is done

    def __len__(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def own(self) -> np.ndarray:
        """The numbers of candidates that are the requester's own datasets."""
        return self._numbers(lambda part: part.own)

    @cached_property
    def left_out(self) -> np.ndarray:
        """The numbers of candidates that are not looked at."""
        return self._numbers(lambda part: part.left_out)

    @cached_property
    def providers(self) -> np.ndarray:
        """The number of each candidate's provider."""
        return _joined([part.providers for part in self.parts]).astype(np.int64)

    def looks(self) -> dict[int, int]:
        """How many candidates of each provider are looked at."""
        return added(part.looks() for part in self.parts)

    def _numbers(self, places: Callable[[ShardPart], np.ndarray]) -> np.ndarray:
        numbers = [places(part) + start for part, start in zip(self.parts, self.starts, strict=False)]
        return np.concatenate(numbers) if numbers else np.zeros(0, np.intp)

    def board(self, bases: Mapping[int, Base], quantile: float, *, potential: bool = False) -> Board:
        """One sweep over everything, by usable gain, or by potential gain; `bases` are the model as each view sees it."""
        found = []
        for number, part in enumerate(self.parts, start=1):
            found.append(part.scores(bases[part.view], quantile, potential=potential))
            self.tell(float(self.starts[number]) / max(len(self), 1))
        names = found[0] if found else ("gain", "lower", "deviation", "coefficient", "keys")
        whole: dict[str, Any] = {name: _joined([columns[name] for columns in found]) for name in names}
        bounds = whole.pop("potential", None), whole.pop("potential_lower", None)
        usable = whole.pop("rank", None)
        return Board(rank=bounds if potential and found else None, ordered_by=usable, providers=self.providers, **whole)

    def shortlist(self, bases: Mapping[int, Base], wanted: WantedBest) -> Shortlist:
        board = self.board(bases, wanted.quantile, potential=wanted.potential)
        ranked = board.of_new_keys() if wanted.new_keys else board
        numbers = ranked.listed(wanted, self.left_out)
        return Shortlist(numbers, ranked.only(numbers), partial(self.aside, board))

    def aside(self, board: Board) -> tuple[Dropped, ...]:
        """Why candidates are not taken, reason by reason."""
        own, others = np.zeros((2, int(self.starts[-1])), bool)
        own[self.own] = True
        others[self.left_out] = True
        others &= ~own
        noise = _joined([part.silent for part in self.parts]).astype(bool) & ~own & ~others
        answers = []
        unclear = ~noise & ~own & ~others & (np.asarray(board.lower) <= 0)
        for reason, hit in zip(LEFT_ASIDE, (own, others, noise, unclear), strict=True):
            numbers = np.flatnonzero(hit)
            if len(numbers):
                examples = tuple(self.label(int(number)) for number in numbers[:EXAMPLES])
                answers.append(Dropped(reason=reason, count=len(numbers), examples=examples))
        return tuple(answers)

    def part(self, number: int) -> ShardPart:
        return self.parts[number]

    def place(self, number: int) -> tuple[int, int]:
        """The part of a candidate, and its place there."""
        part = int(np.searchsorted(self.starts, number, side="right")) - 1
        return part, int(number - self.starts[part])

    def label(self, number: int) -> str:
        part, place = self.place(number)
        return self.parts[part].label(place)


def silent(spread: np.ndarray, reliability: np.ndarray) -> np.ndarray:
    """Which features are all noise at their key: they do not vary, or next to nothing of it is signal."""
    answer: np.ndarray = (spread <= 1e-15) | (reliability < SILENT)
    return answer


def readable(
    files: Iterable[tuple[int, str]], opened: Callable[[int, str], ShardPart]
) -> tuple[dict[int, ShardPart], dict[str, InvalidInput]]:
    """The parts of those files (view and name) that can be read, by their place in the list; and what is wrong with others.

    One damaged file does not lose a search. One that is gone does: a newer one has its place, and the index says which.
    """
    found: dict[int, ShardPart] = {}
    problems: dict[str, InvalidInput] = {}
    for place, (view, name) in enumerate(files):
        try:
            part = opened(view, name)
        except InvalidInput as problem:
            problems[name] = problem
            continue
        if len(part):
            found[place] = part
    return found, problems


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.zeros(0)


def _sound(size: int, rows: ShardRows) -> ShardRows:
    """Without features whose values mean no number in original units: one of them would spoil the whole result."""
    if rows.values.shape[1] != size:  # compiled loops would read beyond the end
        raise InvalidInput(
            "a shard of the corpus does not fit its list of keys.", hint="Pack the corpus anew: `saibot pack`."
        )
    numbers = rows.numbers
    with np.errstate(over="ignore", invalid="ignore"):
        centre = numbers["offset"] + numbers["scale"] * numbers["mean"]
    sound = np.isfinite(centre) & np.isfinite(numbers["scale"]) & (numbers["scale"] >= SMALLEST_SCALE)
    return rows if sound.all() else rows.take(sound)
