"""Score every candidate of a corpus against the current model, shard by shard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saibot.search.corpus import Corpus
from saibot.search.hops import hop_shards
from saibot.search.request import SearchOptions, SearchRequest
from saibot.search.scoring import score
from saibot.search.shard import ShardRows
from saibot.search.state import State
from saibot.search.sweep import sweep
from saibot.search.terms import Units
from saibot.search.views import View, Views


@dataclass(frozen=True)
class Candidate:
    """One row of a shard that the request can be joined with."""

    view: View
    shard: ShardRows
    row: int

    @property
    def digest(self) -> str:
        return str(self.shard.text["digest"][self.row])

    @property
    def dataset(self) -> str:
        return str(self.shard.text["dataset"][self.row])

    @property
    def feature(self) -> str:
        return str(self.shard.text["feature"][self.row])

    @property
    def via(self) -> str | None:
        """The digest of the dataset whose counts lead to this one; None where the request's own key does."""
        return str(self.shard.text["via"][self.row]) if "via" in self.shard.text else None

    @property
    def identity(self) -> tuple[str, str, tuple[tuple[str, str | None], ...], str | None]:
        """What tells it from all others: sketch, feature, what it is joined on, and through which dataset."""
        return self.digest, self.feature, self.view.parts, self.via

    @property
    def units(self) -> Units:
        """Values are deviations from the feature's mean: `original = units.offset + units.scale * deviation`."""
        return Units(self.number("offset") + self.number("scale") * self.number("mean"), self.number("scale"))

    def number(self, name: str) -> float:
        return float(self.shard.numbers[name][self.row])

    def values(self) -> np.ndarray:
        """Its value for each of the request's finest keys: scaled deviations from its mean, float64."""
        row: np.ndarray = self.shard.values[self.row].astype(np.float64)
        spread: np.ndarray = row[self.view.index]
        return spread


@dataclass(frozen=True)
class Board:
    """The scores of all candidates at one step, as plain arrays; candidates are numbered through all shards."""

    gain: np.ndarray
    lower: np.ndarray
    deviation: np.ndarray
    coefficient: np.ndarray
    keys: np.ndarray  # with rows, in the candidate's domain

    def order(self, most: int | None = None) -> np.ndarray:
        """Best first: by lower bound, and by gain among those whose bound is 0. Only the first `most` are sorted out."""
        rank = np.where(self.lower > 0, 1 + self.lower, self.gain * (1 - 1e-9))
        if most is None or most >= len(rank):
            return np.argsort(-rank, kind="stable")
        top = np.argpartition(-rank, most)[:most]
        return top[np.argsort(-rank[top], kind="stable")]


class Engine:
    """Holds a request's views on a corpus, and the shards where they are swept: mapped files, or a GPU's memory."""

    def __init__(self, corpus: Corpus, request: SearchRequest, options: SearchOptions) -> None:
        known = Views(request.key) if request.key is not None else None
        views = known.all_of(corpus.key_ids) if known is not None else {}
        self._parts = [(view, shard) for id in views for view in views[id] for shard in corpus.shards(id)]
        if options.hops and known is not None:
            self._parts += hop_shards(corpus, known)
        self._starts = np.cumsum([0, *(len(shard) for _, shard in self._parts)])
        self._device = _device(options.device)
        self._resident: dict[int, Any] = {}
        self.unreachable = {id: files for id, files in corpus.key_ids.items() if id not in views}

    def __len__(self) -> int:
        return int(self._starts[-1])

    def candidate(self, number: int) -> Candidate:
        part = int(np.searchsorted(self._starts, number, side="right")) - 1
        view, shard = self._parts[part]
        return Candidate(view, shard, int(number - self._starts[part]))

    def column(self, name: str) -> np.ndarray:
        """A number that shards keep of every candidate."""
        parts = [shard.numbers[name] for _, shard in self._parts]
        return np.concatenate(parts) if parts else np.zeros(0)

    def board(self, state: State, *, quantile: float) -> Board:
        """One sweep over everything."""
        found: list[tuple[np.ndarray, ...]] = []
        for part, (view, shard) in enumerate(self._parts):
            base = state.base(view.index, view.size)
            first, second = sweep(self._values(part, shard), base.linear, base.square)
            scores = score(first, second, base, quantile=quantile)
            columns = tuple(map(_host, (scores.gain, scores.lower, scores.deviation, scores.coefficient)))
            found.append((*columns, np.full(len(shard), base.keys)))
        if not found:
            return Board(*(np.zeros(0) for _ in range(5)))
        return Board(*(np.concatenate(columns) for columns in zip(*found, strict=True)))

    def _values(self, part: int, shard: ShardRows) -> Any:
        if self._device is None:
            return shard.values
        if part not in self._resident:
            import torch

            self._resident[part] = torch.from_numpy(np.array(shard.values)).to(self._device)
        return self._resident[part]


def _device(wanted: str) -> str | None:
    """The torch device to sweep on, or None for numpy. `auto` takes a GPU where torch is there and sees one."""
    if wanted == "cpu":
        return None
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None and torch.cuda.is_available():
        return "cuda"
    if wanted == "cuda":
        from saibot.errors import InvalidInput

        raise InvalidInput("no GPU is to be had here.", hint="Install torch with CUDA, or search with --device cpu.")
    return None


def _host(values: Any) -> np.ndarray:
    return values if isinstance(values, np.ndarray) else np.asarray(values.cpu().numpy())
