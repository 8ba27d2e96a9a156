"""What a search found, in the requester's hands: as a table, as a picture, joined to rows, as a model, and on disk.

Everything is made from one document, the same that `save` writes as result.json. It names sketches by digest; their values
stay in the corpus and are looked up there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saibot.client.keys import KeyColumn, request_key
from saibot.client.model import LinearModel, Lookup, fitted
from saibot.client.request import FeatureColumn, Request, Units
from saibot.client.saved import domain_from_json, domain_to_json, read_result
from saibot.client.tables import read_columns, with_columns, write_augmented
from saibot.errors import InvalidInput
from saibot.privatize.privatize import write_safely
from saibot.privatize.read import TableLike
from saibot.search import Corpus, SearchOptions, SearchResult, Strategy, search
from saibot.search.hops import hop_shards
from saibot.search.shard import ShardRows
from saibot.search.views import RequestKey, View, Views

if TYPE_CHECKING:
    import pandas as pd

RANKED = [
    *("dataset", "feature", "kind", "key", "gain", "lower", "upper"),
    *("coefficient", "reliability", "rows", "step", "note", "digest"),
]


def find_augmentation(
    request: Request,
    corpus: Corpus,
    options: SearchOptions | None = None,
    *,
    strategy: Strategy | None = None,
    progress: Callable[[str, float | None], None] = lambda stage, part: None,
) -> Augmented:
    """Search a corpus with a request of either kind."""
    found = search(request.asked, corpus, options, strategy=strategy, progress=progress)
    return Augmented(_document(request, found, corpus), corpus)


class Augmented:
    """The accepted augmentations in order, the ranking they were chosen from, and the model they give."""

    def __init__(self, document: dict[str, Any], corpus: Corpus | None) -> None:
        self.document = document
        self._corpus = corpus

    @classmethod
    def load(cls, path: Path | str, corpus: Corpus | None = None) -> Augmented:
        """Read what `save` wrote. The corpus is needed to augment and to predict, not to look."""
        return cls(read_result(Path(path)), corpus)

    def save(self, path: Path | str) -> None:
        """Write result.json. It holds the model, that is, statistics of the requester's own rows: keep it like them."""
        text = json.dumps(self.document, indent=1, ensure_ascii=False, allow_nan=False)
        write_safely(Path(path), text.encode())

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the new columns."""
        return tuple(column["name"] for column in self.document["columns"])

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self.document["notes"])

    def to_frame(self) -> pd.DataFrame:
        """The ranked candidates of the first step: gain in R2 with its interval, and the step that took each, if any."""
        import pandas as pd

        taken = self.taken()
        rows = [
            {
                "dataset": found["dataset"],
                "feature": found["feature"],
                "kind": found["kind"],
                "key": key_label(found["key"]),
                "gain": found["gain"],
                "lower": found["interval"][0],
                "upper": found["interval"][1],
                "coefficient": found["coefficient"],
                "reliability": found["reliability"],
                "rows": found["rows"],
                "step": taken.get(identity(found)),
                "note": found["note"],
                "digest": found["digest"],
            }
            for found in self.document["ranked"]
        ]
        return pd.DataFrame(rows, columns=RANKED).astype({"step": "Int64", "rows": "Int64"})

    def taken(self) -> dict[tuple[str, ...], int]:
        """The step that took each candidate, by its `identity`."""
        return {identity(step): i for i, step in enumerate(self.document["steps"], start=1)}

    def path(self) -> pd.DataFrame:
        """R2 step by step, the base model first; a step joins a column, or adds the rows of a dataset."""
        import pandas as pd

        base = self.document["base"]
        steps = [{"step": 0, "column": None, "train_r2": base["train_r2"], "test_r2": base["test_r2"]}]
        names = iter(self.columns)
        for i, step in enumerate(self.document["steps"], start=1):
            name = next(names) if step["kind"] == "join" else f"rows of {step['dataset']}"
            steps.append({"step": i, "column": name, "train_r2": step["train_r2"], "test_r2": step["test_r2"]})
        return pd.DataFrame(steps)

    def plot(self, path: Path | str | None = None) -> Any:
        """R2 step by step, and the ranked gains with their intervals; a matplotlib figure, written to a path if given."""
        from saibot.client.plot import figure

        drawn = figure(self)
        if path is not None:
            drawn.savefig(path, dpi=150)
        return drawn

    def augment(self, table: TableLike, *, out: Path | str | None = None, columns: Mapping[str, str] | None = None) -> Any:
        """A left join of the chosen values, in original units, onto the requester's rows: all rows stay, in order.

        New columns are called `<dataset>.<feature>`. Rows whose key is outside a dataset's domain get what the dataset
        says of keys outside it. `columns` renames key columns where this table calls them otherwise. Gives back the same
        kind of frame, or writes `out` as CSV, Parquet or Arrow.
        """
        new = self.values(table, columns=columns)
        if out is None:
            return with_columns(table, new)
        write_augmented(table, new, Path(out))
        return None

    def values(self, table: TableLike, *, columns: Mapping[str, str] | None = None) -> dict[str, np.ndarray]:
        """The new columns alone, one value per row of the table."""
        keys = self._keys(columns or {})
        if not self.columns:
            return {}
        names = [key.column for key in keys]
        key, (codes,) = request_key(keys, [read_columns(table, names, text=names)])
        assert key is not None
        return {column["name"]: _looked_up(self._values_from(), column, key)[codes] for column in self.document["columns"]}

    def model(self, *, columns: Mapping[str, str] | None = None) -> LinearModel:
        """The regression with all chosen columns, fitted on the request's moments."""
        stored = self.document["model"]
        if stored is None:
            raise InvalidInput("this result has no model: its search strategy did not give one.")
        return LinearModel(
            target=stored["target"]["column"],
            own=tuple(FeatureColumn(**column) for column in stored["own"]),
            lookups=tuple(stored["lookups"]),
            coefficients=stored["coefficients"],
            intercept=stored["intercept"],
            augment=lambda table: self.values(table, columns=columns),
        )

    def __repr__(self) -> str:
        last = self.path().iloc[-1]
        held_out = "" if last.test_r2 is None else f", {last.test_r2:.3f} held out"
        return f"Augmented({len(self.document['steps'])} steps, R2 {last.train_r2:.3f}{held_out})"

    # -------------------------------------------------------------------------------------------- inside

    def _keys(self, columns: Mapping[str, str]) -> list[KeyColumn]:
        keys = self.document["keys"]
        unknown = [name for name in columns if name not in {key["name"] for key in keys}]
        if unknown:
            have = ", ".join(key["name"] for key in keys) or "none"
            raise InvalidInput(f"the result has no key {unknown[0]!r}.", hint=f"It has {have}.")
        return [
            KeyColumn(key["name"], columns.get(key["name"], key["column"]), tuple(map(domain_from_json, key["domains"])))
            for key in keys
        ]

    def _values_from(self) -> Corpus:
        if self._corpus is None:
            raise InvalidInput("the values of a result come from its corpus.", hint="Load it with `corpus=Corpus(FOLDER)`.")
        return self._corpus


def identity(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """What tells a candidate from all others: sketch, feature, and the columns it is joined on."""
    return entry["digest"], str(entry["feature"]), key_label(entry["key"])


def key_label(key: list[dict[str, Any]]) -> str:
    return ", ".join(part["part"] if part["level"] is None else f"{part['part']}.{part['level']}" for part in key)


def _document(request: Request, found: SearchResult, corpus: Corpus) -> dict[str, Any]:
    """The result with coefficients in original units, and with what it takes to use it."""
    document = found.to_json()
    target_scale = request.units[found.target].scale
    for entry in (*document["steps"], *document["ranked"]):
        if entry["coefficient"] is not None:
            entry["coefficient"] *= target_scale
    columns, lookups = [], []
    names = set(request.asked.train.features)
    for step, entry in zip(found.steps, document["steps"], strict=True):
        if step.found.kind != "join":
            continue
        name = _new_name(step.column, names)
        assert request.asked.key is not None
        _, shard, row = _placed(corpus, entry, request.asked.key)
        units = _units(shard, row)
        lookups.append(Lookup(name, units))
        entry["column"] = name
        columns.append({
            "name": name,
            "dataset": step.found.dataset,
            "digest": step.found.digest,
            "feature": step.found.feature,
            "unit": str(shard.text["unit"][row]),
            "key": entry["key"],
            "mean": units.offset,
            "reliability": step.found.reliability,
        })  # fmt: skip
    keys = [
        {"name": key.name, "column": key.column, "domains": [domain_to_json(domain) for domain in key.domains]}
        for key in request.keys
    ]
    return document | {
        "rows": {
            "train": int(request.asked.train.count),
            "test": None if request.asked.test is None else int(request.asked.test.count),
        },
        "keys": keys,
        "columns": columns,
        "model": None if found.final is None else fitted(request, found.final, lookups),
        "notes": list(request.notes),
    }


def _new_name(wanted: str, taken: set[str]) -> str:
    """The wanted name, told apart from those there are."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}.{number}", number + 1
    taken.add(name)
    return name


def _placed(corpus: Corpus, column: Mapping[str, Any], key: RequestKey) -> tuple[View, ShardRows, int]:
    """Where a chosen feature stands: the view that the keys have on it, its shard and its row there."""
    views = Views(key)
    joined_on = tuple((part["part"], part["level"]) for part in column["key"])
    known = False
    for id in corpus.key_ids:
        for shard in corpus.shards(id):
            row = _row(shard, column)
            known = known or row is not None
            view = next((view for view in views.find_all(id) if view.parts == joined_on), None)
            if row is not None and view is not None:
                return view, shard, row
    if column["digest"] in corpus.digests:
        for view, shard in hop_shards(corpus, views):  # values that another dataset's counts lead to
            row = _row(shard, column)
            if row is not None and view.parts == joined_on:
                return view, shard, row
    if known:
        name = f"{column['dataset']}.{column['feature']}"
        raise InvalidInput(f"{name} was joined on {key_label(column['key'])}, which these keys do not give.")
    raise InvalidInput(
        f"the corpus {corpus.folder} does not hold the sketch {column['digest'][:12]} of {column['dataset']!r}, "
        "which the result uses.",
        hint="Give the corpus that was searched, or search again: it may have been withdrawn.",
    )


def _row(shard: ShardRows, column: Mapping[str, Any]) -> int | None:
    text = shard.text
    same = (text["digest"] == column["digest"]) & (text["feature"] == column["feature"])
    rows = np.flatnonzero(same & (text["dataset"] == column["dataset"]))
    return int(rows[0]) if len(rows) else None


def _looked_up(corpus: Corpus, column: Mapping[str, Any], key: RequestKey) -> np.ndarray:
    """A chosen column's value for every finest key, in original units."""
    view, shard, row = _placed(corpus, column, key)
    units = _units(shard, row)
    values: np.ndarray = (units.offset + units.scale * shard.values[row].astype(np.float64))[view.index]
    return values


def _units(shard: ShardRows, row: int) -> Units:
    """A shard holds deviations from the feature's mean: `original = units.offset + units.scale * deviation`."""
    offset, scale, mean = (float(shard.numbers[number][row]) for number in ("offset", "scale", "mean"))
    return Units(offset + scale * mean, scale)
