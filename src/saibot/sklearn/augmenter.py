"""A transformer whose `fit` is a search at home and whose `transform` joins what was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d, validate_data

from saibot.client import (
    Augmented,
    Corpus,
    Domains,
    Platform,
    Requester,
    SearchOptions,
    connect,
    find_augmentation,
    local_request,
)
from saibot.client.exact_request import Keys
from saibot.client.tables import with_columns
from saibot.errors import InvalidInput
from saibot.privatize.frames import frame_names, is_frame, library_of

SHARED_BY_CLONES = ("source",)  # a connection or an open corpus is not copied
NUMBERS: dict[str, Any] = {"dtype": "numeric", "ensure_all_finite": "allow-nan"}  # what an array may hold


class PrivateAugmenter(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Searches published private sketches for columns that explain `y`, and adds them to `X`.

    source      folder of a corpus, address of a platform, or an open `Corpus`, `Platform` or `Requester`; by default the
                platform that `saibot login` made the default one
    key         the column, or the columns, that others' tables are joined on; a mapping gives a column its key domain
    features    columns of X that the model has already; by default all columns of numbers that are no key
    steps, rank, confidence
                options of the search; what is None is as `options` has it, and that is the search's own default
    keep_keys   whether the key columns stay in the output, which most models cannot use

    A pandas or polars frame comes back as the same kind of frame, an array as an array; an array's columns are called x0, x1
    and so on. Only columns are added, never rows. Keys that a provider does not list get what it says of all such keys
    together.

    After `fit`: `augmented_` is the search's result (with its chart, report and model), `new_columns_` names what is joined.
    """

    def __init__(
        self,
        source: Corpus | Platform | Requester | Path | str | None = None,
        *,
        key: str | Keys = (),
        features: Sequence[str] | None = None,
        steps: int | None = None,
        rank: str | None = None,
        confidence: float | None = None,
        keep_keys: bool = False,
        options: SearchOptions | None = None,
    ) -> None:
        self.source = source
        self.key = key
        self.features = features
        self.steps = steps
        self.rank = rank
        self.confidence = confidence
        self.keep_keys = keep_keys
        self.options = options

    def fit(self, X: Any, y: Any) -> Self:
        """Search with these rows. Nothing of them leaves this machine, and no budget is spent."""
        table, truth = self._fitted_table(X, y)
        keys: Keys = (self.key,) if isinstance(self.key, str) else self.key
        if not keys:
            raise InvalidInput("key names no column, so nothing can be joined.", hint="Name the key column: key='ward'.")
        names = frame_names(table)
        target = _free_name("target", names)
        own = self.features if self.features is not None else numeric_columns(table, without=tuple(keys))
        asked: dict[str, Any] = {"target": target, "keys": keys, "features": tuple(own)}
        self.augmented_ = self._search(with_columns(table, {target: truth}), asked)
        self.new_columns_ = self.augmented_.columns
        self.own_features_ = tuple(own)
        read = {key.column for key in self.augmented_.result.keys}
        self.kept_columns_ = tuple(name for name in names if self.keep_keys or name not in read)
        return self

    def transform(self, X: Any) -> Any:
        """The columns of X without its keys, and the chosen columns beside them; rows stay as they are, in order."""
        check_is_fitted(self, "augmented_")
        table = self._table(X)
        new = self.augmented_.values(table)
        if _named(X):
            return with_columns(X[list(self.kept_columns_)], new)
        kept = [table.column(name).to_numpy() for name in self.kept_columns_]
        columns = [*kept, *new.values()]
        return np.column_stack(columns) if columns else np.zeros((table.num_rows, 0))

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> np.ndarray:
        """The columns that `transform` gives: those kept of X, then `<dataset>.<feature>` of each that was chosen."""
        check_is_fitted(self, "augmented_")
        given = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        asked = dict(zip(self._names(), given, strict=True))
        return np.array([*(asked[name] for name in self.kept_columns_), *self.new_columns_], dtype=object)

    # -------------------------------------------------------------------------------------------- inside

    def _search(self, table: Any, asked: dict[str, Any]) -> Augmented:
        given = {"steps": self.steps, "rank": self.rank, "confidence": self.confidence}
        said = {name: value for name, value in given.items() if value is not None}
        options = (self.options or SearchOptions()).but(unions=False, **said)
        source = opened(self.source)
        if isinstance(source, Requester):
            return source.search_at_home(table, options=options, **asked)
        request = local_request(table, domains=Domains(source), **asked)
        return find_augmentation(request, source, options)

    def _fitted_table(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """X as a table and the target as numbers, checked; what X looks like is remembered."""
        if _named(X):
            validate_data(self, X, y="no_validation" if y is not None else None, skip_check_array=True)
            truth = check_array(column_or_1d(y), dtype=np.float64, ensure_2d=False, ensure_min_samples=2, input_name="y")
            check_consistent_length(X, truth)
            return X, truth
        values, truth = validate_data(self, X, y, y_numeric=True, ensure_min_samples=2, **NUMBERS)
        return self._as_table(values), np.asarray(truth, np.float64)

    def _table(self, X: Any) -> Any:
        """X as a table, checked against what was fitted."""
        if _named(X):
            validate_data(self, X, reset=False, skip_check_array=True)
            return X
        return self._as_table(validate_data(self, X, reset=False, **NUMBERS))

    def _as_table(self, values: np.ndarray) -> pa.Table:
        return pa.table({name: pa.array(values[:, i]) for i, name in enumerate(self._names())})

    def _names(self) -> list[str]:
        named = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(self.n_features_in_)] if named is None else list(named)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        return tags

    def __sklearn_clone__(self) -> Self:
        given = self.get_params(deep=False)
        made = type(self)(**{k: v if k in SHARED_BY_CLONES else clone(v, safe=False) for k, v in given.items()})
        for set_by_caller in ("_sklearn_output_config", "_metadata_request"):
            if hasattr(self, set_by_caller):
                setattr(made, set_by_caller, clone(getattr(self, set_by_caller), safe=False))
        return made


def opened(source: Corpus | Platform | Requester | Path | str | None) -> Corpus | Requester:
    """What a source names: a corpus, or a requester of a platform."""
    if isinstance(source, Corpus | Requester):
        return source
    if isinstance(source, Platform):
        return Requester(source)
    if source is None or "://" in str(source):
        return Requester(connect(None if source is None else str(source)))
    return Corpus(Path(source))


def numeric_columns(table: Any, *, without: Sequence[str] = ()) -> list[str]:
    """The columns of numbers and truths of a frame or an Arrow table, by their declared types."""
    if library_of(table) == "pandas":
        from pandas.api.types import is_numeric_dtype

        kinds = {str(name): is_numeric_dtype(kind) for name, kind in table.dtypes.items()}
    elif library_of(table) == "polars":
        kinds = {name: kind.is_numeric() or str(kind) == "Boolean" for name, kind in table.schema.items()}
    else:
        numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
        kinds = {field.name: any(kind(field.type) for kind in numbers) for field in table.schema}
    return [name for name, numeric in kinds.items() if numeric and name not in without]


def _named(X: Any) -> bool:
    """Whether X is a frame whose columns have names; one without is an array to scikit-learn, and so it is here."""
    return is_frame(X) and all(isinstance(name, str) for name in X.columns)


def _free_name(wanted: str, taken: Sequence[str]) -> str:
    while wanted in taken:
        wanted += "_"
    return wanted
