"""A result to explore: what its columns change, what it leaves unexplained by key, how it predicts rows, other budgets.

Everything comes from the result, and from a `FitOnRows` where the requester's own machine has made one. What is not there is
said in words: a platform has no rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from saibot.report import explore_charts, residual_charts
from saibot.report.charts import Spec
from saibot.report.explore_charts import ADDED, AFTER, BEFORE, OWN, Drawn
from saibot.report.format import count, fixed, in_unit, number, percent, plural, signed, with_error
from saibot.report.key_charts import MOST_BARS, Shapes, kind_of
from saibot.report.places import key_labels, map_file, map_words, shapes_of
from saibot.report.result import ResultView, coefficient_rows
from saibot.report.spreadsheet import csv_text
from saibot.wire import FitOnRows, KeyResiduals, OtherBudgets, WhatIf
from saibot.wire.result import Model, Pair

ASKED = 3.0  # the epsilon that is asked about where nobody says another
STRIKING = 20  # keys in the table of residuals
LEAST_SEEN = 0.2  # of their error, by which means are off at least where that can be told
Row = list[str]


@dataclass(frozen=True)
class LeftByKey:
    """What is left unexplained by one part of the key: charts, and the keys that stand out most as a table."""

    part: KeyResiduals
    kind: str
    charts: list[Drawn]
    heads: Row
    rows: list[Row]
    spread: str

    @property
    def shown(self) -> str:
        """Which keys the picture and the table have, where they do not have all."""
        told = [map_words(self.part.domain, self.part.keys, command=False)]
        if self.kind == "bars" and len(self.part.keys) > MOST_BARS:
            told.append(f"The picture shows the {MOST_BARS} keys that stand out most.")
        if self.part.left_out:
            told.append(f"{plural(self.part.left_out, 'key')} that stand out least are not kept.")
        return " ".join(filter(None, told))


@dataclass(frozen=True)
class ExploredView:
    """A result's pictures. `files` says where the shapes of maps are; `epsilon` is the budget that is asked about."""

    view: ResultView
    fit: FitOnRows | None
    epsilon: float
    files: Shapes

    @property
    def unit(self) -> str:
        model = self._model
        return "" if model is None else model.target.unit

    @property
    def _model(self) -> Model | None:
        return self.view.result.model or self.view.result.base_model

    # -------------------------------------------------------------------------------------------- the model

    @cached_property
    def effects_chart(self) -> Spec | None:
        """Nothing where a column's spread is not known, as in results of earlier versions."""
        model = self.view.result.model
        if model is None or not model.spreads or not model.coefficients:
            return None
        rows: list[dict[str, Any]] = []
        for name, value, low, high in coefficient_rows(self.view.result)[1:]:
            spread = model.spreads.get(name, 0.0)
            ends = (value, value) if low is None or high is None else (low, high)
            row = {"label": name, "middle": spread * value, "low": spread * ends[0], "high": spread * ends[1]}
            row |= {
                "kind": ADDED if name in model.lookups else OWN,
                "told": number(value),
                "effect": number(spread * value, 3),
            }
            rows.append(row | {"ends": "noise leaves it open" if low is None else f"{number(ends[0])} to {number(ends[1])}"})
        rows.sort(key=lambda row: -abs(float(row["middle"])))
        target = model.target.name if model.family == "gaussian" else f"the linear part of {model.target.name}"
        unit = self.unit if model.family == "gaussian" else ""
        return explore_charts.effects(rows, target=target, unit=unit, sure=self.view.sureness)

    # -------------------------------------------------------------------------------------------- residuals

    @cached_property
    def left(self) -> list[LeftByKey]:
        """By each part of the key."""
        parts = self.fit.residuals if self.fit is not None else self.view.result.residuals
        return [self._left(part, number) for number, part in enumerate(parts)]

    @property
    def why_nothing_left(self) -> str:
        """Why there is nothing to see by key."""
        result = self.view.result
        if not result.keys:
            return "The request has no key."
        if result.private:
            return "The platform that answered kept no sums by key, or joined all pairs of rows with the same key."
        return "The request was local: what its rows leave unexplained is with the rows, and in no result."

    def _left(self, part: KeyResiduals, place: int) -> LeftByKey:
        shapes, labels = shapes_of(part.domain), key_labels(part.domain, part.keys)
        heads = [part.key, *([_capital(BEFORE)] if part.before else []), _capital(AFTER), "Rows"]
        rows = []
        for i in residual_charts.striking(part, STRIKING):
            was = [with_error(part.before[i], part.before_error[i], self.unit)] if part.before else []
            rows.append([labels[i], *was, with_error(part.after[i], part.after_error[i], self.unit), count(part.rows[i])])
        drawn = residual_charts.residuals(part, shapes, self.files, unit=self.unit, id=f"left-chart-{place}")
        return LeftByKey(part, kind_of(part.domain, shapes), drawn, heads, rows, self._spread(part))

    def _spread(self, part: KeyResiduals) -> str:
        """How far means of keys are off, before and after, in one sentence."""
        columns = ((part.before, part.before_error), (part.after, part.after_error))
        told = [self._size(_typical(column, part.rows), _typical(errors, part.rows)) for column, errors in columns if column]
        by = f"By {part.key}, means are typically"
        return f"{by} off by {told[-1]}." if len(told) == 1 else f"{by} off by {told[0]} {BEFORE}, by {told[1]} {AFTER}."

    def _size(self, size: float, error: float) -> str:
        if size < LEAST_SEEN * error:
            return f"less than noise of {in_unit(number(error, 2), self.unit)} hides"
        return in_unit(number(size, 3), self.unit)

    def residuals_csv(self) -> str:
        """All keys of all parts, for spreadsheets."""
        rows = [
            [part.key, key, rows, *((part.before[i], part.before_error[i]) if part.before else (None, None)), after, error]
            for part in (one.part for one in self.left)
            for i, (key, rows, after, error) in enumerate(
                zip(part.keys, part.rows, part.after, part.after_error, strict=True)
            )
        ]
        return csv_text(("part", "key", "rows", "before", "before error", "after", "after error"), rows)

    # -------------------------------------------------------------------------------------------- rows

    @cached_property
    def fit_charts(self) -> list[Drawn]:
        if self.fit is None:
            return []
        models = {AFTER: self.fit.after} if self.fit.before is None else {BEFORE: self.fit.before, AFTER: self.fit.after}
        return explore_charts.actual_and_predicted(models, target=self.view.target, unit=self.unit, id="fit-chart")

    @cached_property
    def fit_rows(self) -> list[Row]:
        """How close predictions are, with own features and with what was added."""
        if self.fit is None:
            return []
        models = [model for model in (self.fit.before, self.fit.after) if model is not None]
        return [
            ["R²", *(fixed(model.r2) for model in models)],
            ["Nine rows of ten are within", *(in_unit(f"± {number(model.within, 3)}", self.unit) for model in models)],
            ["Mean absolute error", *(in_unit(number(model.mean_absolute, 3), self.unit) for model in models)],
            ["Root mean square error", *(in_unit(number(model.root_mean_square, 3), self.unit) for model in models)],
        ]

    @property
    def fit_heads(self) -> Row:
        before = [] if self.fit is None or self.fit.before is None else [_capital(BEFORE)]
        return ["", *before, _capital(AFTER)]

    # -------------------------------------------------------------------------------------------- other budgets

    @property
    def what_if(self) -> WhatIf | None:
        return self.view.result.what_if

    @cached_property
    def budgets_chart(self) -> Spec | None:
        return None if self.what_if is None else explore_charts.other_budgets(self.what_if, self.epsilon)

    @property
    def budget_heads(self) -> Row:
        at = f"at ε {number(self.epsilon)}"
        return ["Column", "Taken", "ε now", "Signal kept now", f"Signal kept {at}", "Gain now", f"Gain {at}"]

    @cached_property
    def budget_rows(self) -> list[Row]:
        """Each column now and at the epsilon asked for; those that were taken first, then the best of the others."""
        if self.what_if is None:
            return []
        return [self._budget_row(one) for one in self.what_if.columns]

    @property
    def budget_reasons(self) -> list[str]:
        """Why nothing is said of some columns."""
        columns = () if self.what_if is None else self.what_if.columns
        told = [f"{one.name}: {one.untold}." for one in columns if one.untold]
        dark = [one.name for one in columns if not one.untold and all(gain is None for gain in one.gain)]
        return told + (
            [f"Too little of the values is signal now to say what would be gained by {', '.join(dark)}."] if dark else []
        )

    @cached_property
    def budget_sentence(self) -> str:
        """All that was taken, together: as if each column kept its part of what it adds."""
        taken = [one for one in (self.what_if.columns if self.what_if is not None else ()) if one.taken]
        gains = [(one.gain_now, _at(self._epsilons, one.gain, self.epsilon)) for one in taken]
        known = [(now, then) for now, then in gains if then is not None]
        if not known:
            return ""
        more = sum(then - now for now, then in known)
        after = self.view.after
        some = "" if len(known) == len(taken) else f", for {len(known)} of {len(taken)} columns"
        return (
            f"With ε = {number(self.epsilon)} for every column that was taken, R² {fixed(after)} would be "
            f"{_direction(more)} {fixed(min(after + more, 1.0))}{some}: columns that say the same share what they add."
        )

    @cached_property
    def request_sentence(self) -> str:
        """What another budget of the requester's own would do to the intervals."""
        asked = self.what_if
        if asked is None or asked.request is None:
            return ""
        ratio = _at(self._epsilons, asked.request_noise, self.epsilon)
        ranked = self.view.result.ranked
        if ratio is None or not ranked:
            return ""
        if math.isclose(ratio, 1.0, rel_tol=1e-6):
            return f"Your own request cost ε = {asked.request.epsilon}, too."
        now = sum(one.interval[0] > 0 for one in ranked)
        then = sum(narrowed(one.gain, one.interval, ratio)[0] > 0 for one in ranked)
        return (
            f"Your own request cost ε = {asked.request.epsilon}. At ε = {number(self.epsilon)} its noise would be "
            f"{percent(ratio)} of what it is, and {count(then)} of the {plural(len(ranked), 'ranked candidate')} would have "
            f"a gain that is clear of 0, where {count(now)} {'has' if now == 1 else 'have'} one now."
        )

    @property
    def epsilons(self) -> tuple[float, ...]:
        return self._epsilons

    @property
    def _epsilons(self) -> tuple[float, ...]:
        return () if self.what_if is None else self.what_if.epsilons

    def _budget_row(self, one: OtherBudgets) -> Row:
        kept = _at(self._epsilons, one.kept, self.epsilon)
        span = _span_at(self._epsilons, one.kept_interval, self.epsilon)
        gain = _at(self._epsilons, one.gain, self.epsilon)
        ends = _span_at(self._epsilons, one.gain_interval, self.epsilon)
        return [
            one.name,
            "yes" if one.taken else "no",
            "open" if one.budget is None and "open table" in one.untold else one.budget.epsilon if one.budget else "–",
            percent(one.kept_now),
            percent(kept) + ("" if span is None else f" ({percent(span[0])} to {percent(span[1])})"),
            signed(one.gain_now),
            signed(gain) + ("" if ends is None else f" ({fixed(ends[0])} to {fixed(ends[1])})"),
        ]


def explore_view(
    view: ResultView, fit: FitOnRows | None = None, *, epsilon: float | None = None, files: Shapes | None = None
) -> ExploredView:
    """A result ready to be explored; `files` by default gives the shapes of maps themselves, for what fetches nothing."""
    asked = view.result.what_if.epsilons if view.result.what_if is not None else ()
    wanted = ASKED if epsilon is None else epsilon
    if asked:  # between those that were computed; beyond them nothing is known
        wanted = min(max(wanted, asked[0]), asked[-1])
    return ExploredView(view, fit, wanted, files or _content)


def narrowed(gain: float, interval: Pair, ratio: float) -> Pair:
    """Where a gain would lie if the request's noise were another multiple of what it is: roots of gains have errors that go
    with it."""
    root = math.sqrt(max(gain, 0.0))
    low, high = (ratio * (math.sqrt(max(end, 0.0)) - root) for end in interval)
    return max(root + low, 0.0) ** 2, (root + high) ** 2


def _at(epsilons: Sequence[float], values: Sequence[float | None], epsilon: float) -> float | None:
    """Between the budgets that were computed, along the logarithm."""
    if not values:
        return None
    for (low, first), (high, last) in zip(
        zip(epsilons, values, strict=True), zip(epsilons[1:], values[1:], strict=True), strict=False
    ):
        if low <= epsilon <= high:
            if first is None or last is None:
                return first if epsilon == low else last if epsilon == high else None
            return first + (last - first) * math.log(epsilon / low) / math.log(high / low)
    return None


def _span_at(epsilons: Sequence[float], spans: Sequence[Pair | None], epsilon: float) -> Pair | None:
    ends = [_at(epsilons, [None if span is None else span[end] for span in spans], epsilon) for end in (0, 1)]
    low, high = ends
    return None if low is None or high is None else (low, high)


def _direction(more: float) -> str:
    return "at most about" if more > 0 else "about"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _typical(values: Sequence[float], rows: Sequence[float]) -> float:
    """The root of the mean square over rows: what is left of one key's mean, where a row happens to be."""
    weight = sum(rows)
    return math.sqrt(sum(n * value**2 for n, value in zip(rows, values, strict=True)) / weight) if weight > 0 else 0.0


def _content(file: str) -> dict[str, Any]:
    path = map_file(file)
    assert path is not None  # whoever has shapes of a place has their file
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content
