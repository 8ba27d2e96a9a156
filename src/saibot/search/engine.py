"""Score every candidate of a corpus against the current model, shard by shard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saibot.errors import InvalidInput
from saibot.search.corpus import Corpus
from saibot.search.hops import hop_shards
from saibot.search.key_maps import View, Views
from saibot.search.potential import potential_scores
from saibot.search.request import SearchRequest
from saibot.search.scored_sweep import best, order_by, scored_sweep
from saibot.search.scoring import Base
from saibot.search.shard import OPEN, ShardRows
from saibot.search.state import State
from saibot.search.sweep import sweep
from saibot.search.units import Units
from saibot.search.whole_datasets import dataset_groups, score_datasets
from saibot.wire import Identity, SearchOptions

SMALLEST_SCALE = 1e-100  # coefficients are divided by it


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
    def open(self) -> bool:
        """Whether it is of a public table, whose values are exact."""
        return OPEN in self.shard.extra and bool(self.shard.extra[OPEN][self.row, 0] == 1)

    @property
    def units(self) -> Units:
        """Values are deviations from the feature's mean: `original = units.offset + units.scale * deviation`."""
        return Units(self.number("offset") + self.number("scale") * self.number("mean"), self.number("scale"))

    def number(self, name: str) -> float:
        return float(self.shard.numbers[name][self.row])

    def own_values(self) -> np.ndarray:
        """Its value for each key of its own domain: scaled deviations from its mean, float64."""
        row: np.ndarray = self.shard.values[self.row].astype(np.float64)
        return row

    def values(self) -> np.ndarray:
        """The same for each of the request's finest keys."""
        spread: np.ndarray = self.own_values()[self.view.index]
        return spread


Group = tuple[Candidate, ...]  # one feature, or all features of a dataset where whole datasets are asked for


def identity(group: Group) -> Identity:
    first = group[0]
    return Identity(first.digest, first.feature if len(group) == 1 else None, first.view.parts, first.via)


@dataclass(frozen=True)
class Board:
    """The scores of all candidates at one step; candidates are numbered through all shards.

    Arrays, or columns in a GPU's memory (`saibot.search.gpu.DeviceColumn`) that are indexed and read like arrays.
    """

    gain: Any
    lower: Any
    deviation: Any
    coefficient: Any
    keys: np.ndarray  # with rows, in the candidate's domain
    features: np.ndarray | None = None  # of each candidate; None: one
    wald: np.ndarray | None = None  # of several features: their joint test statistic
    rank: tuple[np.ndarray, np.ndarray] | None = None  # another gain, and its lower bound, to order by
    device_rank: Any = None  # on a GPU, what `order` orders by there
    ordered_by: np.ndarray | None = None  # the same of gain and lower bound, where the sweep has it

    def of_new_keys(self) -> Board:
        """The same, ordered by what candidates would gain on keys that training never saw.

        Slopes are fitted to these very keys, which flatters a gain by the variance of its root, once for the fit here and
        once for the miss elsewhere: g - 2 var (mathematics.md, "Known and new keys"). What is sure is so in proportion.
        """
        gain, lower = self.rank or (np.asarray(self.gain), np.asarray(self.lower))
        usable = np.maximum(np.asarray(self.gain), 1e-300)
        share = 1 - self.flattery(np.arange(len(gain))) / usable
        return replace(self, rank=(gain * share, lower * np.maximum(share, 0.0)))

    def flattery(self, numbers: np.ndarray) -> np.ndarray:
        """By how much the gains of these candidates are larger here than on new keys."""
        count = 1 if self.features is None else self.features[numbers]
        answer: np.ndarray = 2 * count * np.asarray(self.deviation[numbers]) ** 2
        return answer

    def order(self, most: int | None = None) -> np.ndarray:
        """Best first: by lower bound, and by gain among those whose bound is 0. Only the first `most` are sorted out."""
        if self.device_rank is not None and self.rank is None and most is not None:
            return np.asarray(self.device_rank.best(most))
        if self.ordered_by is not None and self.rank is None:
            rank = self.ordered_by
        else:
            rank = order_by(*(self.rank or (np.asarray(self.gain), np.asarray(self.lower))))
        return best(rank, len(rank) if most is None else most)


class Engine:
    """Holds a request's views on a corpus, and the shards where they are swept: mapped files, or a GPU's memory."""

    def __init__(self, corpus: Corpus, request: SearchRequest, options: SearchOptions) -> None:
        self.corpus, self.key = corpus, request.key
        known = Views(request.key, corpus) if request.key is not None else None
        views = known.all_of(corpus.key_ids) if known is not None else {}
        self._parts = [(view, shard) for id in views for view in views[id] for shard in corpus.shards(id)]
        if options.shared:
            columns = {id: rows for id in views if (rows := corpus.shared_columns(id)) is not None}
            self._parts += [(view, columns[id]) for id in columns for view in views[id]]
        if options.hops and known is not None:
            self._parts += hop_shards(corpus, known)
        self._parts = [(view, sound) for view, shard in self._parts if len(sound := _sound(view, shard))]
        self._groups = [dataset_groups(shard) for _, shard in self._parts] if options.whole_datasets else None
        sizes = [len(shard) for _, shard in self._parts] if self._groups is None else [len(g[0]) for g in self._groups]
        self._starts = np.cumsum([0, *sizes])
        self._device = _device(options)
        self.for_new_keys = options.gain != "known" and request.key is not None and not request.private
        self._resident: dict[int, Any] = {}
        self.unreachable = {  # key domains, and why the request does not reach them
            id: "the request has no key" if known is None else known.why_not(id) for id in corpus.key_ids if id not in views
        }
        self.own = self._find_own(request)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def group(self, number: int) -> Group:
        part = int(np.searchsorted(self._starts, number, side="right")) - 1
        view, shard = self._parts[part]
        place = int(number - self._starts[part])
        if self._groups is None:
            return (Candidate(view, shard, place),)
        starts, sizes = self._groups[part]
        return tuple(Candidate(view, shard, int(starts[place]) + i) for i in range(int(sizes[place])))

    def candidate(self, number: int) -> Candidate:
        """The (first) feature of a candidate."""
        return self.group(number)[0]

    def column(self, name: str) -> np.ndarray:
        """A number that shards keep of every candidate; of several features the largest."""
        parts = []
        for number, (_, shard) in enumerate(self._parts):
            column = shard.numbers[name]
            if self._groups is not None and len(column):
                column = np.maximum.reduceat(column, self._groups[number][0])
            parts.append(column)
        return np.concatenate(parts) if parts else np.zeros(0)

    def first(self, board: Board, most: int) -> list[int]:
        """The numbers of the first candidates, best first, without the requester's own datasets."""
        return [int(number) for number in board.order(most + len(self.own)) if int(number) not in self.own][:most]

    def board(self, state: State, *, quantile: float, potential: bool = False) -> Board:
        """One sweep over everything; by usable gain, or by potential gain."""
        if self._device is not None and self._parts:
            return self._board_on_gpu(state, quantile, potential=potential)
        found: list[dict[str, np.ndarray]] = []
        at = None
        for part, (view, shard) in enumerate(self._parts):
            if view is not at:  # the shards of a view follow each other, and many of them are small
                at, base = view, state.base(view.index, view.size)
            if self._groups is None:
                columns = dict(vars(scored_sweep(shard.values, base, quantile=quantile)))
                if potential:
                    columns |= _potential(shard, columns, base, quantile)
            else:
                starts, sizes = self._groups[part]
                first, _ = sweep(shard.values, base.linear, base.square)
                joint = score_datasets(shard, first, starts, sizes, base, quantile=quantile)
                # Of datasets the potential is ranked as far as the usable gain is clear of its noise.
                share = joint.lower / np.maximum(joint.gain, 1e-300)
                columns = {name: getattr(joint, name) for name in ("gain", "lower", "deviation", "wald", "potential")}
                columns |= {"features": sizes, "potential_lower": joint.potential * share}
                columns["coefficient"] = np.full(len(sizes), np.nan)
            found.append(columns | {"keys": np.broadcast_to(base.keys, len(columns["gain"]))})
        names = found[0] if found else ("gain", "lower", "deviation", "coefficient", "keys")
        whole = {name: _joined([columns[name] for columns in found]) for name in names}
        bounds = whole.pop("potential", None), whole.pop("potential_lower", None)
        usable = whole.pop("rank", None)
        return Board(rank=bounds if potential and found else None, ordered_by=usable, **whole)  # type: ignore[arg-type]

    def _find_own(self, request: SearchRequest) -> frozenset[int]:
        """The numbers of candidates that are the requester's own datasets, by digest or by name."""
        found: list[int] = []
        for part, (_, shard) in enumerate(self._parts):
            digests, names = shard.text["digest"], shard.text["dataset"]
            own = np.zeros(len(digests), dtype=bool)
            for name in request.own:
                own |= (digests == name) | (names == name)
            own = own if self._groups is None else own[self._groups[part][0]]
            found += [int(self._starts[part]) + int(place) for place in np.flatnonzero(own)]
        return frozenset(found)

    def _board_on_gpu(self, state: State, quantile: float, *, potential: bool) -> Board:
        """The same where the values live in a GPU's memory: what is not asked for stays there."""
        from saibot.search import gpu

        found, keys, bounds, at = [], [], [], None
        for part, (view, shard) in enumerate(self._parts):
            if view is not at:
                at, base = view, state.base(view.index, view.size)
            if part not in self._resident:
                self._resident[part] = gpu.resident(shard.values)
            scores = gpu.score_on_gpu(self._resident[part], base, quantile=quantile)
            found.append(scores)
            keys.append(np.full(len(shard), base.keys))
            if potential:
                columns = {name: np.asarray(gpu.DeviceColumn([scores.column(name)])) for name in ("gain", "deviation")}
                bounds.append(_potential(shard, columns, base, quantile))
        whole = {name: gpu.DeviceColumn([scores.column(name) for scores in found]) for name in gpu.SCORES}
        raw = (
            [np.concatenate([part[name] for part in bounds]) for name in ("potential", "potential_lower")] if bounds else []
        )
        return Board(
            gain=whole["gain"],
            lower=whole["lower"],
            deviation=whole["deviation"],
            coefficient=whole["coefficient"],
            keys=np.concatenate(keys),
            rank=(raw[0], raw[1]) if raw else None,
            device_rank=whole["rank"],
        )


def _potential(shard: ShardRows, scores: dict[str, np.ndarray], base: Base, quantile: float) -> dict[str, np.ndarray]:
    # One hop further a value is a mean over many keys: what is unknown of each is nearly averaged out.
    reliability = shard.numbers["reliability"] if "via" not in shard.text else np.ones(len(shard))
    found, lower = potential_scores(scores["gain"], scores["deviation"], base, reliability=reliability, quantile=quantile)
    return {"potential": found, "potential_lower": lower}


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.zeros(0)


def _sound(view: View, shard: ShardRows) -> ShardRows:
    """Without features whose values mean no number in original units: one of them would spoil the whole result."""
    if shard.values.shape[1] != view.size:  # compiled loops would read beyond the end
        raise InvalidInput(
            "a shard of the corpus does not fit its list of keys.", hint="Pack the corpus anew: `saibot pack`."
        )
    numbers = shard.numbers
    with np.errstate(over="ignore", invalid="ignore"):
        centre = numbers["offset"] + numbers["scale"] * numbers["mean"]
    sound = np.isfinite(centre) & np.isfinite(numbers["scale"]) & (numbers["scale"] >= SMALLEST_SCALE)
    return shard if sound.all() else shard.take(sound)


def _device(options: SearchOptions) -> str | None:
    """The torch device to sweep on, or None for numpy. `auto` takes a GPU where torch is there and sees one."""
    if options.device == "cpu" or (options.device == "auto" and options.whole_datasets):
        return None
    if options.whole_datasets:
        raise InvalidInput("whole datasets are scored by the processor.", hint="Search with --device cpu.")
    try:
        import torch
        import triton  # noqa: F401
    except ImportError:
        torch = None
    if torch is not None and torch.cuda.is_available():
        return "cuda"
    if options.device == "cuda":
        raise InvalidInput("no GPU is to be had here.", hint="Install saibot[gpu], or search with --device cpu.")
    return None
