"""What a search found, in the requester's hands: as a table, as a picture, joined to rows, as a model, and on disk.

Everything is made from one `wire.Result`, the same that `save` writes as result.json and that a platform answers. It names
sketches by digest; their values stay in the corpus, or with the platform, and are looked up there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saibot.client.exact_request import OWN_AVERAGE, LocalRequest, with_own_average
from saibot.client.fit_on_rows import fit_of_request, fit_on_rows
from saibot.client.judging import judge
from saibot.client.keys import request_key
from saibot.client.model import FittedModel, LinearModel
from saibot.client.saved import read_result
from saibot.client.standing import by_known_names, with_standings
from saibot.client.tables import numbers, read_columns, with_columns, write_augmented
from saibot.client.values import ValueSource, looked_up
from saibot.domains.aligning import percent
from saibot.errors import InvalidInput
from saibot.privatize.read import TableLike
from saibot.report.result import COLUMNS, rows_of, view_result
from saibot.safe_file import write_safely
from saibot.search import Corpus, SearchOptions, SearchRequest, Strategy, search
from saibot.search.document import domain_listed, result_of
from saibot.search.found import SearchResult
from saibot.search.learning import owner
from saibot.search.units import KeyColumn
from saibot.wire import FitOnRows, Measured, Result, Worth
from saibot.wire.result import Model

if TYPE_CHECKING:
    import pandas as pd

    from saibot.client.compared import ComparedResults
    from saibot.client.exploration import Explored
    from saibot.report.picture import Picture


MOST = 0.5  # of the rows; where fewer have a key that is listed, people are warned


BEYOND = "gains and R² step by step are beyond your own average per key, for rows of known keys; the model does not use it"


def find_augmentation(
    request: SearchRequest,
    corpus: Corpus,
    options: SearchOptions | None = None,
    *,
    strategy: Strategy | None = None,
    account: str | None = None,
    progress: Callable[[str, float | None], None] = lambda stage, part: None,
) -> Augmented:
    """Search a corpus with a request of either kind.

    `account` is the name that the requester publishes under, if it does (in a folder the fingerprint of the key that it
    signs with): its own sketches then help no value that its request is judged by. By default it is who published a dataset
    of the request's name.
    """
    own = account or owner(corpus, request.own)
    asked = request
    if request.modelling is not None:
        _check_modelled(options or SearchOptions(), strategy)
    if isinstance(request, LocalRequest) and options is not None and options.gain == "known":
        asked = with_own_average(request)
    options = None if options is None else by_known_names(options, corpus)
    found = search(asked, corpus.for_provider(own), options, strategy=strategy, progress=progress)
    if asked is not request and found.final is not None:
        without = replace(found.table, moments=request.train) if found.table is not None else None
        first, final = found.first and found.first.without(OWN_AVERAGE), found.final.without(OWN_AVERAGE)
        found = replace(found, first=first, final=final, table=without, notes=(*found.notes, BEYOND))
    own_kind = isinstance(request, LocalRequest) and not request.model.linear
    told = replace(found, first=None, final=None) if own_kind else found
    result = with_standings(result_of(told, request, corpus.for_provider(own), at_home=True), corpus)
    if not isinstance(request, LocalRequest):
        return Augmented(result, corpus)
    family = request.model.family.name
    if result.model is not None:
        result = result.but(
            model=result.model.but(family=family), base_model=result.base_model and result.base_model.but(family=family)
        )
    if found.join == "lookup":
        result = result.but(worth=_worth(request, found, progress))
    return Augmented(result, corpus, request)


def _check_modelled(options: SearchOptions, strategy: Strategy | None) -> None:
    """A model of the requester's own is refitted step by step, with columns: nothing else goes with it."""
    if strategy is not None or options.strategy != "greedy" or options.join != "lookup" or options.gain == "known":
        raise InvalidInput(
            "a model or a family of your own is searched for step by step, by lookup joins, for new keys.",
            hint="Leave out --exhaustive, --join and --gain known; or leave out --model and --family.",
        )


def _worth(request: LocalRequest, found: SearchResult, progress: Callable[[str, float | None], None]) -> Worth | None:
    """What was found is worth beside what the requester has anyway; nothing where there is no key to have averages by."""
    if request.rows is None or request.key is None:
        return None
    taken = [step.values for step in found.steps if step.values is not None]
    values = np.vstack(taken).T if taken else np.zeros((len(request.key), 0))
    used = {part for step in found.steps if step.values is not None for part, _ in step.found.key}
    # A key is new where what was joined is: with columns by day alone, another day, whatever the other parts are.
    parts = [i for i, (name, _) in enumerate(request.key.parts) if name in used or not used]
    groups = np.unique(request.key.places[:, parts], axis=0, return_inverse=True)[1].reshape(-1)
    names = dict.fromkeys(request.key.parts[i][0] for i in parts)
    return judge(
        request.rows,
        values,
        groups,
        request.model,
        key=" and ".join(names),
        confidence=found.interval_confidence,
        progress=progress,
    )


class Augmented:
    """The accepted augmentations in order, the ranking they were chosen from, and the model they give."""

    def __init__(
        self,
        result: Result | Mapping[str, Any],
        source: Corpus | ValueSource | None = None,
        request: LocalRequest | None = None,
    ) -> None:
        """From a result, be it made here or by a platform, or from its JSON document.

        `source` is where the chosen values are looked up: a corpus, or anything that gives sketches by digest. It is
        needed to augment and to predict, not to look. `Kept()` asks nobody; `Published(platform)` asks the platform for
        what was chosen, and thereby tells it: see `at_home`. `request` holds the rows of a search that was made here: they
        are looked at (`explore`), a model of the requester's own kind is fitted to them, and they are never saved.
        """
        self.result = Result.read(result, "the document")
        self._source, self.request = source, request

    def __getstate__(self) -> dict[str, Any]:
        """A step of a pipeline is pickled and goes elsewhere: without anybody's rows."""
        return self.__dict__ | {"request": None}

    @classmethod
    def load(cls, path: Path | str, source: Corpus | ValueSource | None = None) -> Augmented:
        """Read what `save` wrote."""
        return cls(read_result(Path(path)), source)

    def save(self, path: Path | str) -> None:
        """Write result.json. It holds the model, that is, statistics of the requester's own rows: keep it like them."""
        write_safely(Path(path), self.result.text(indent=1).encode())

    @property
    def source(self) -> Corpus | ValueSource:
        """Where the chosen values are looked up."""
        if self._source is None:
            raise InvalidInput(
                "the values of a result come from its corpus, or from what was kept of it.",
                hint="Load it with `source=Corpus(FOLDER)`; with `source=Kept()` where a platform was searched.",
            )
        return self._source

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the new columns."""
        return tuple(column.name for column in self.result.columns)

    @property
    def worth(self) -> Worth | None:
        """Own features, own averages and private columns side by side, for known and for new keys; of a search at home."""
        return self.result.worth

    @property
    def notes(self) -> tuple[str, ...]:
        return self.result.notes

    @property
    def at_home(self) -> bool:
        """Whether nobody but the requester knows what was chosen."""
        return self.result.at_home

    def to_frame(self) -> pd.DataFrame:
        """The ranked candidates of the first step: gain in R2 with its interval, and the step that took each, if any."""
        import pandas as pd

        frame = pd.DataFrame(rows_of(view_result(self.result)), columns=COLUMNS)
        return frame.drop(columns="rank").astype({"step": "Int64", "rows": "Int64"})

    def path(self) -> pd.DataFrame:
        """R2 step by step, the base model first; a step joins a column, or adds the rows of a dataset."""
        import pandas as pd

        steps: list[dict[str, Any]] = [{"step": 0, "column": None} | _measured(self.result.base)]
        for i, step in enumerate(self.result.steps, start=1):
            steps.append({"step": i, "column": step.added} | _measured(step))
        return pd.DataFrame(steps)

    def coefficients(self) -> pd.DataFrame:
        """Every coefficient of the model in original units, the intercept first, with its intervals where there are some.

        `lower` and `upper` are Fieller's; `exact` is the estimate and its standard error; `bound` the paper's.
        """
        import pandas as pd

        from saibot.report.result import COEFFICIENT_COLUMNS, all_coefficient_rows

        return pd.DataFrame(all_coefficient_rows(self.result), columns=COEFFICIENT_COLUMNS)

    def plot(self, path: Path | str | None = None) -> Picture:
        """R2 step by step, and the ranked gains with their intervals: a picture, which notebooks show."""
        from saibot.report.picture import result_picture

        drawn = result_picture(view_result(self.result))
        if path is not None:
            drawn.save(path)
        return drawn

    def report(self, path: Path | str) -> None:
        """Write the whole result as one HTML file that opens offline. It holds statistics of the requester's own rows, and
        points of them after a search that was made here."""
        self.explore().report(path)

    def explore(
        self, table: TableLike | None = None, *, columns: Mapping[str, str] | None = None, epsilon: float | None = None
    ) -> Explored:
        """Pictures of the result: coefficients, what is left unexplained by key, predictions of rows, other budgets.

        Rows are those of `table`, whose key columns `columns` renames; by default those of the search, as long as it is
        this very object that searched. Nothing of them goes anywhere.
        """
        from saibot.client.exploration import Explored

        fit = self._fit_of_search() if table is None else self._fit_on(table, columns or {})
        return Explored(self.result, fit, epsilon=epsilon)

    def compare(self, other: Augmented) -> ComparedResults:
        """This result beside another: what was asked, what was found, and where both differ by more than their noise."""
        from saibot.client.compared import ComparedResults

        return ComparedResults(self.result, other.result)

    def augment(self, table: TableLike, *, out: Path | str | None = None, columns: Mapping[str, str] | None = None) -> Any:
        """A left join of the chosen values, in original units, onto the requester's rows: all rows stay, in order.

        New columns are called `<dataset>.<feature>`. Rows whose key is outside a dataset's domain get what the dataset
        says of keys outside it; a column for which that is all of them is an error, and a warning where it is most of them.
        `columns` renames key columns where this table calls them otherwise. Gives back the same kind of frame, or writes
        `out` as CSV, Parquet or Arrow.
        """
        new, covered = self._looked_up(table, columns or {})
        _check_covered(covered)
        if out is None:
            return with_columns(table, new)
        write_augmented(table, new, Path(out))
        return None

    def coverage(self, table: TableLike, *, columns: Mapping[str, str] | None = None) -> dict[str, float]:
        """For every new column, the share of the table's rows whose key its dataset lists."""
        return self._looked_up(table, columns or {})[1]

    def values(self, table: TableLike, *, columns: Mapping[str, str] | None = None) -> dict[str, np.ndarray]:
        """The new columns alone, one value per row of the table."""
        return self._looked_up(table, columns or {})[0]

    def _looked_up(self, table: TableLike, columns: Mapping[str, str]) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        """The new columns, and for each the share of the rows whose key is listed; of no rows, all are."""
        keys = self._keys(columns)
        if not self.columns:
            return {}, {}
        names = [key.column for key in keys]
        key, (codes,) = request_key(keys, [read_columns(table, names, text=names)])
        assert key is not None
        found = {column.name: looked_up(self.source, column, key) for column in self.result.columns}
        values = {name: one.values[codes] for name, one in found.items()}
        return values, {name: float(one.listed[codes].mean()) if len(codes) else 1.0 for name, one in found.items()}

    def model(self, *, columns: Mapping[str, str] | None = None) -> LinearModel:
        """The regression with all chosen columns, fitted on the request's moments."""
        stored = self.result.model
        if stored is None and self.request is not None and not self.request.model.linear:
            return self._fitted(self.request, columns)
        if stored is None:
            raise InvalidInput(
                "this result has no model: its strategy gave none, or it was one of your own kind, which is not saved.",
                hint="Fit it on `augment(TABLE)`.",
            )
        return self._linear(stored, columns)

    def _linear(self, stored: Model, columns: Mapping[str, str] | None) -> LinearModel:
        return LinearModel(
            target=stored.target.column,
            own=stored.own,
            lookups=stored.lookups,
            coefficients=stored.coefficients,
            intercept=stored.intercept,
            family=stored.family,
            augment=lambda table: self.values(table, columns=columns),
        )

    def _fitted(self, request: LocalRequest, columns: Mapping[str, str] | None) -> LinearModel:
        """The requester's own kind of model, fitted on its training rows and the chosen columns, in original units."""
        assert request.rows is not None and request.terms is not None and request.key is not None
        terms, train = request.terms, ~request.rows.held_out
        units = [terms.units[column.name] for column in terms.features]
        own = request.rows.own * [unit.scale for unit in units] + [unit.offset for unit in units]
        taken = [looked_up(self.source, one, request.key).values for one in self.result.columns]
        table = np.column_stack([own, *(values[request.rows.codes] for values in taken)])
        return FittedModel(
            request.model.fitted(table[train], request.rows.target[train]),
            target=terms.target_column,
            own=terms.features,
            lookups=self.columns,
            augment=lambda rows: self.values(rows, columns=columns),
        )

    def __repr__(self) -> str:
        last = self.path().iloc[-1]
        held_out = "" if last.test_r2 is None else f", {last.test_r2:.3f} held out"
        return f"Augmented({len(self.result.steps)} steps, R2 {last.train_r2:.3f}{held_out})"

    def _repr_html_(self) -> str:
        from saibot.report.notebook import notebook_html

        return notebook_html(view_result(self.result))

    # -------------------------------------------------------------------------------------------- inside

    def _fit_of_search(self) -> FitOnRows | None:
        """Of the rows that were searched with, where they are still at hand."""
        request = self.request
        if request is None or request.rows is None or self.result.join != "lookup":
            return None
        key = request.key
        taken = [] if key is None else [looked_up(self.source, one, key).values for one in self.result.columns]
        scaled = [(column - column.mean()) / (float(column.std()) or 1.0) for column in taken]
        return fit_of_request(request, np.column_stack(scaled) if scaled else np.zeros((1, 0)))

    def _fit_on(self, table: TableLike, columns: Mapping[str, str]) -> FitOnRows:
        """Of any rows that have the target, predicted by the models of the result."""
        final, base = self.model(columns=columns), self.result.base_model
        actual = numbers(read_columns(table, [final.target]), final.target)
        keys = self._keys(columns)
        key, codes = None, np.zeros(len(actual), np.intp)
        if keys:
            names = [key.column for key in keys]
            key, (codes,) = request_key(keys, [read_columns(table, names, text=names)])
        before = None if base is None or not self.result.steps else self._linear(base, columns).predict(table)
        which = "those of the table that was given; ones that the model was fitted on flatter it"
        return fit_on_rows(which, actual, before, final.predict(table), key, codes)

    def _keys(self, columns: Mapping[str, str]) -> list[KeyColumn]:
        keys = self.result.keys
        unknown = [name for name in columns if name not in {key.name for key in keys}]
        if unknown:
            have = ", ".join(key.name for key in keys) or "none"
            raise InvalidInput(f"the result has no key {unknown[0]!r}.", hint=f"It has {have}.")
        return [
            KeyColumn(key.name, columns.get(key.name, key.column), tuple(map(domain_listed, key.domains))) for key in keys
        ]


class CoverageWarning(UserWarning):
    """Most rows of a table have keys that a joined dataset does not list."""


def _check_covered(covered: Mapping[str, float]) -> None:
    for name, share in covered.items():
        if share == 0:
            raise InvalidInput(
                f"no row has a key that {name} is listed by: it would be one and the same value in all rows.",
                hint="Are these the keys that were searched with, written alike? --key KEY=COLUMN names another column.",
            )
        if share < MOST:
            warnings.warn(f"{name} lists the keys of {percent(share)} of the rows only.", CoverageWarning, stacklevel=3)


def _measured(model: Measured) -> dict[str, float | None]:
    low, high = model.test_interval or (None, None)
    return {"train_r2": model.train_r2, "test_r2": model.test_r2, "test_lower": low, "test_upper": high}
