"""Two results side by side: what was asked, what was found, and where both differ by more than their noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from saibot.report.charts import MOST_ROWS, Spec
from saibot.report.compare_charts import beside, steps
from saibot.report.format import count, fixed, number, percent, plural, signed
from saibot.report.result import RankedEntry, ResultView, coefficient_rows
from saibot.report.spreadsheet import csv_text, safe_file_name

Row = list[str]
COLUMNS = (
    *("candidate", "joined_on", "first_gain", "first_lower", "first_upper", "first_step"),
    *("second_gain", "second_lower", "second_upper", "second_step", "differs"),
)


@dataclass(frozen=True)
class Pairing:
    """A candidate in both results, or in one of them."""

    label: str
    first: RankedEntry | None
    second: RankedEntry | None

    @property
    def both(self) -> tuple[RankedEntry | None, RankedEntry | None]:
        return self.first, self.second

    @property
    def difference(self) -> float | None:
        """In gain; whether it means anything is for whoever knows that both explain the same target."""
        return None if self.first is None or self.second is None else self.second.entry.gain - self.first.entry.gain

    @property
    def differs(self) -> bool:
        """Whether the intervals have nothing in common: more than noise, and than chance, would do."""
        if self.first is None or self.second is None:
            return False
        one, other = self.first.entry.interval, self.second.entry.interval
        return one[1] < other[0] or other[1] < one[0]

    @property
    def largest(self) -> float:
        return max(one.entry.gain for one in self.both if one is not None)

    @property
    def other_version(self) -> bool:
        """Whether the dataset has been published anew between the two."""
        return self.first is not None and self.second is not None and self.first.entry.digest != self.second.entry.digest


@dataclass(frozen=True)
class SideBySide:
    """`names` is what the two are called in charts and tables."""

    first: ResultView
    second: ResultView
    names: tuple[str, str]

    @property
    def views(self) -> tuple[ResultView, ResultView]:
        return self.first, self.second

    @property
    def same_target(self) -> bool:
        return self.first.target == self.second.target

    @property
    def headline(self) -> str:
        """Which explains more, in one sentence."""
        if not self.same_target:
            return (
                f"They explain different targets, {self.first.target} and {self.second.target}: each R² is of its own "
                "target, and gains are not compared one by one."
            )
        more = self.second.after - self.first.after
        if abs(more) < 0.0005:
            return f"Both explain {self.first.target} equally well: R² {fixed(self.first.after)}."
        better, worse = (1, 0) if more > 0 else (0, 1)
        views = self.views
        return (
            f"{self.names[better]} explains {self.first.target} better: R² {fixed(views[better].after)} against "
            f"{fixed(views[worse].after)}."
        )

    @property
    def caution(self) -> str:
        """What keeps the two R² from being comparable, where something does."""
        if self.first.by_held_out != self.second.by_held_out:
            return "One R² is of held-out rows, the other of training rows, which flatters it a little."
        rows = [view.result.rows.test if view.by_held_out else view.result.rows.train for view in self.views]
        if rows[0] != rows[1]:
            return "They are of different numbers of rows; a difference between them may be a difference between the rows."
        return ""

    @cached_property
    def facts(self) -> list[Row]:
        """What was asked and what came of it; those rows first in which the two differ."""
        rows = [[name, *(told(view) for view in self.views)] for name, told in _FACTS.items()]
        return sorted(rows, key=lambda row: row[1] == row[2])

    @cached_property
    def pairs(self) -> list[Pairing]:
        """Every candidate that either ranks, the largest gain first."""
        found: dict[tuple[str, str], list[RankedEntry | None]] = {}
        for place, view in enumerate(self.views):
            for one in view.entries:
                found.setdefault((one.entry.label, one.entry.on), [None, None])[place] = one
        several = len({on for _, on in found}) > 1
        pairs = [
            Pairing(f"{label} by {on}" if several and on else label, first, second)
            for (label, on), (first, second) in found.items()
        ]
        return sorted(pairs, key=lambda pair: -pair.largest)

    @property
    def shared(self) -> int:
        return sum(pair.first is not None and pair.second is not None for pair in self.pairs)

    @property
    def differing(self) -> int:
        """Candidates whose gains differ by more than their intervals; of different targets none can."""
        return sum(pair.differs for pair in self.pairs) if self.same_target else 0

    @property
    def pairs_sentence(self) -> str:
        differing = self.differing
        if not self.shared:
            return "The two have no candidate in common."
        if not self.same_target:
            return f"{plural(self.shared, 'candidate')} ranked by both, for different targets."
        has = "has" if differing == 1 else "have"
        return f"Of {count(self.shared)} that both rank, {count(differing)} {has} gains whose intervals do not meet."

    # -------------------------------------------------------------------------------------------- charts

    @property
    def steps_chart(self) -> Spec:
        held_out = all(view.by_held_out for view in self.views)
        paths = {
            name: [(stage.label, r2, fixed(r2)) for stage in view.path for r2 in [view.believed(stage)]]
            for name, view in zip(self.names, self.views, strict=True)
        }
        return steps(paths, on="held-out rows" if held_out else "rows")

    @property
    def gains_chart(self) -> Spec | None:
        rows: list[dict[str, Any]] = []
        for pair in self.pairs[:MOST_ROWS]:
            for which, one in zip(self.names, pair.both, strict=True):
                if one is not None:
                    low, high = one.entry.interval
                    told = f"{signed(one.entry.gain)} ({fixed(low)} to {fixed(high)})"
                    row = {"label": pair.label, "which": which, "middle": one.entry.gain, "low": low, "high": high}
                    rows.append(row | {"told": told})
        if not rows:
            return None
        words = "Gain in R² of each candidate by itself in both searches, with its interval."
        return beside(rows, self.names, axis="gain in R²", description=words, value="gain in R²")

    @property
    def effects_chart(self) -> Spec | None:
        """Only where both explain the same target in the same unit: changes of different things have no common axis."""
        models = [view.result.model for view in self.views]
        if not self.same_target or any(model is None or not model.spreads for model in models):
            return None
        units = {model.target.unit for model in models if model is not None}
        rows: list[dict[str, Any]] = []
        for which, view, model in zip(self.names, self.views, models, strict=True):
            for name, value, low, high in coefficient_rows(view.result)[1:]:
                spread = model.spreads.get(name, 0.0) if model is not None else 0.0
                ends = (value, value) if low is None or high is None else (low, high)
                row = {
                    "label": name,
                    "which": which,
                    "middle": spread * value,
                    "low": spread * ends[0],
                    "high": spread * ends[1],
                }
                rows.append(row | {"told": number(spread * value, 3)})
        if not rows or len(units) > 1:
            return None
        unit = f" ({units.pop()})" if "" not in units else ""
        rows.sort(key=lambda row: -abs(row["middle"]))
        axis = [f"change of {self.first.target}{unit}", "with one standard deviation more"]
        return beside(rows, self.names, axis=axis, description="What columns change in both models.", value="change")

    # -------------------------------------------------------------------------------------------- tables

    @property
    def step_rows(self) -> list[Row]:
        """What each step added to both, and R² after it."""
        rows = []
        for place in range(max(len(view.path) for view in self.views)):
            cells = [str(place)]
            for view in self.views:
                there = place < len(view.path)
                stage = view.path[place] if there else None
                cells += [stage.added or "own features", fixed(view.believed(stage))] if stage is not None else ["", ""]
            rows.append(cells)
        return rows

    @property
    def pair_rows(self) -> list[Row]:
        return [
            [
                pair.label + (" (another version)" if pair.other_version else ""),
                *(_gain(one) for one in pair.both),
                (signed(pair.difference) + (" *" if pair.differs else "")) if self.same_target else "–",
                " and ".join(
                    f"{name}, step {one.step}"
                    for name, one in zip(self.names, pair.both, strict=True)
                    if one is not None and one.step is not None
                ),
            ]
            for pair in self.pairs
        ]

    @property
    def coefficient_rows(self) -> list[Row]:
        """Coefficients of both models in original units, with their intervals."""
        found: dict[str, Row] = {}
        for place, view in enumerate(self.views):
            for name, value, low, high in coefficient_rows(view.result):
                ends = "open" if low is None else f"{number(low)} to {number(high)}"
                found.setdefault(name, ["–", "–"])[place] = f"{number(value)} ({ends})"
        return [[name, *cells] for name, cells in found.items()]

    def csv(self) -> str:
        return csv_text(COLUMNS, comparison_rows(self))

    def file_name(self, suffix: str) -> str:
        return safe_file_name(f"saibot-{self.first.result.request}-beside-{self.second.result.request}", suffix)


def compare_views(first: ResultView, second: ResultView, names: tuple[str, str] | None = None) -> SideBySide:
    """Names default to those of the requests, told apart where they are the same."""
    if names is None:
        names = first.result.request, second.result.request
    if names[0] == names[1]:
        names = f"{names[0]} (first)", f"{names[1]} (second)"
    return SideBySide(first, second, names)


def asked_words(view: ResultView, *, most: int = 4) -> str:
    """What tells a search from others about the same target: its key, own features, its own budget, and rows."""
    names = _features(view).split(", ")
    more = f" and {len(names) - most} more" if len(names) > most else ""
    spent = _request_epsilon(view)
    keys = ", ".join(key.name for key in view.result.keys)
    told = [
        f"by {keys}" if keys else "",
        f"with {', '.join(names[:most])}{more}",
        spent if spent.startswith("ε") else "",
        plural(view.result.rows.train, "row"),
    ]
    return " · ".join(filter(None, told))


def _features(view: ResultView) -> str:
    model = view.result.model or view.result.base_model
    return "–" if model is None else ", ".join(own.name for own in model.own) or "none"


def _request_epsilon(view: ResultView) -> str:
    asked = view.result.what_if
    return (
        "nothing: local"
        if not view.private
        else "–"
        if asked is None or asked.request is None
        else f"ε {asked.request.epsilon}"
    )


_FACTS: dict[str, Any] = {
    "Target": lambda view: view.target,
    "Request": lambda view: view.result.request,
    "Asked": lambda view: "with sketches, private" if view.private else "at home, exactly",
    "Request's own budget": _request_epsilon,
    "Training rows": lambda view: count(view.result.rows.train),
    "Held-out rows": lambda view: count(view.result.rows.test),
    "Own features": _features,
    "Keys": lambda view: ", ".join(key.name for key in view.result.keys) or "none",
    "Candidates scored": lambda view: count(view.result.candidates),
    "Joins": lambda view: view.result.join,
    "Ranked by": lambda view: view.result.rank,
    "Taken": lambda view: ", ".join(stage.added for stage in view.path[1:]) or "nothing",
    "R² with own features": lambda view: fixed(view.before),
    "R² after the last step": lambda view: fixed(view.after),
    "Measured on": lambda view: "held-out rows" if view.by_held_out else "training rows",
    "Intervals": lambda view: percent(view.result.interval_confidence),
}


def _gain(one: RankedEntry | None) -> str:
    if one is None:
        return "–"
    return f"{signed(one.entry.gain)} ({fixed(one.entry.interval[0])} to {fixed(one.entry.interval[1])})"


def comparison_rows(comparison: SideBySide) -> Iterator[list[Any]]:
    """The pairs under `COLUMNS`: what spreadsheets and data frames have of them."""
    for pair in comparison.pairs:
        entry = next(one.entry for one in pair.both if one is not None)
        cells: list[Any] = [entry.label, entry.on]
        for one in pair.both:
            cells += [None] * 4 if one is None else [one.entry.gain, *one.entry.interval, one.step]
        yield [*cells, pair.differs]
