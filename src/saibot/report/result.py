"""A search's result as the pages, the report and the CSV file show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saibot.report import charts
from saibot.report.format import day, percent, plural
from saibot.report.spreadsheet import csv_text, safe_file_name
from saibot.report.worth import judged_on, worth_heads, worth_rows, yes_or_no_rows
from saibot.search.rankings import RANKINGS
from saibot.wire import Entry, Measured, ProviderStanding, Result

COLUMNS = (
    *("rank", "dataset", "feature", "kind", "key", "gain", "lower", "upper", "new_keys"),
    *("potential", "potential_lower", "potential_upper", "expected"),
    *("coefficient", "coefficient_lower", "coefficient_upper"),
    *("reliability", "privacy_share", "coverage", "rows", "step", "note", "digest"),
    *("provider", "verified", "signer", "flags"),
)


LESS_SURE = "A larger gain can stand further down where less of it is sure."


@dataclass(frozen=True)
class RankedEntry:
    """A ranked candidate at its place; `step` is the one that took it."""

    entry: Entry
    place: int
    label: str  # one of its own, for charts
    step: int | None

    @property
    def noise_share(self) -> float | None:
        return None if self.entry.reliability is None else 1 - self.entry.reliability


@dataclass(frozen=True)
class Stage:
    """The model after a step; number 0 is the base model."""

    number: int
    label: str
    added: str
    on: str
    model: Measured

    @property
    def readable(self) -> float | None:
        """The held-out R², unless its noise leaves it no meaning."""
        return None if self.model.unclear else self.model.test_r2


@dataclass(frozen=True)
class ResultView:
    """A result with labels, places and the step that took each candidate."""

    result: Result
    entries: tuple[RankedEntry, ...]
    path: tuple[Stage, ...]  # the base model first
    several_keys: bool

    @property
    def target(self) -> str:
        return self.result.target

    @property
    def private(self) -> bool:
        return self.result.private

    @property
    def held_out(self) -> bool:
        return all(stage.model.test_r2 is not None for stage in self.path)

    @property
    def unclear(self) -> bool:
        """Whether the held-out part is too small for its own privacy noise."""
        return any(stage.model.unclear for stage in self.path)

    @property
    def with_new_keys(self) -> bool:
        return any(entry.new_keys is not None for entry in self.result.ranked)

    @property
    def with_potential(self) -> bool:
        return any(entry.potential is not None for entry in self.result.ranked)

    @property
    def with_expected(self) -> bool:
        return any(entry.expected is not None for entry in self.result.ranked)

    @property
    def by_held_out(self) -> bool:
        """Which R² to believe: the held-out one where there is one that its noise leaves readable."""
        return self.held_out and not self.unclear

    @property
    def before(self) -> float:
        return self.believed(self.path[0])

    @property
    def after(self) -> float:
        return self.believed(self.path[-1])

    def believed(self, stage: Stage) -> float:
        held_out = stage.readable if self.by_held_out else None
        return stage.model.train_r2 if held_out is None else held_out

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        taken = len(self.path) - 1
        if not taken:
            return "No published dataset improves this model by more than its noise."
        new = plural(taken, "augmentation")
        on = "held-out rows" if self.by_held_out else "training rows"
        return f"{new} explain{'s' if taken == 1 else ''} {self.target} better on {on}."

    @property
    def gains_chart(self) -> charts.Spec | None:
        return charts.gains(self.entries) if self.entries else None

    @property
    def path_chart(self) -> charts.Spec | None:
        return charts.path(self.path, by_held_out=self.by_held_out) if len(self.path) > 1 else None

    @property
    def worth_heads(self) -> tuple[str, ...]:
        return () if self.result.worth is None else worth_heads(self.result.worth)

    @property
    def worth_rows(self) -> list[list[str]]:
        return [] if self.result.worth is None else worth_rows(self.result.worth)

    @property
    def yes_or_no_rows(self) -> list[list[str]]:
        return [] if self.result.worth is None else yes_or_no_rows(self.result.worth)

    @property
    def judged_on(self) -> str:
        return "" if self.result.worth is None else judged_on(self.result.worth)

    @property
    def calibration_chart(self) -> charts.Spec | None:
        worth = self.result.worth
        return charts.calibration(worth.calibration) if worth is not None and worth.calibration else None

    @property
    def coefficients(self) -> list[tuple[str, float, float | None, float | None]]:
        return coefficient_rows(self.result)

    def unit_of(self, column: str) -> str:
        """The unit of a coefficient: the target's, for one of the column's."""
        model = self.result.model
        if model is None or model.family != "gaussian":
            return ""
        units = {own.name: own.unit for own in model.own} | {one.name: one.unit for one in self.result.columns}
        unit = units.get(column, "")
        return f"{model.target.unit or model.target.name} per {unit}" if unit else model.target.unit

    @property
    def with_providers(self) -> bool:
        return bool(self.result.named_providers)

    @property
    def standings(self) -> list[tuple[ProviderStanding, str]]:
        """Who is named, in the order of the ranking, and how each stands in a few words."""
        return [(standing, standing_in_words(standing)) for standing in self.result.providers]

    def standing_of(self, entry: Entry) -> ProviderStanding | None:
        return self.result.standing_of(entry)

    @property
    def sureness(self) -> str:
        """How sure the intervals are."""
        return percent(self.result.interval_confidence)

    @property
    def order(self) -> str:
        """How the candidates are ordered, in a sentence."""
        by = RANKINGS.get(self.result.rank)
        return "Each by itself." if by is None else f"Each by itself, {by.first} first: by {by.sentence}. {LESS_SURE}"


def view_result(document: Result | Mapping[str, Any]) -> ResultView:
    """Check a result and make it ready to be shown."""
    result = Result.read(document, "the result")
    taken = result.taken
    several_keys = len({entry.on for entry in result.ranked}) > 1
    entries: list[RankedEntry] = []
    used: dict[str, int] = {}
    for place, entry in enumerate(result.ranked, start=1):
        label = f"{entry.label} by {entry.on}" if several_keys and entry.on else entry.label
        entries.append(RankedEntry(entry, place, _distinct(label, used), taken.get(entry.identity)))
    path = [Stage(0, "own features", "", "", result.base)]
    for number, step in enumerate(result.steps, start=1):
        path.append(Stage(number, f"{number}. + {step.added}", step.added, step.on, step))
    return ResultView(result, tuple(entries), tuple(path), several_keys)


def rows_of(view: ResultView) -> list[list[str | float | None]]:
    """The ranked candidates, one row each, under `COLUMNS`: what spreadsheets and data frames have of them."""
    rows: list[list[str | float | None]] = []
    for candidate in view.entries:
        entry = candidate.entry
        rows.append([
            candidate.place, entry.dataset, entry.what or None, entry.kind, entry.on,
            entry.gain, *entry.interval, entry.new_keys, entry.potential, *(entry.potential_interval or (None, None)),
            entry.expected, entry.coefficient, *(entry.coefficient_interval or (None, None)), entry.reliability,
            entry.privacy_share, entry.coverage, entry.rows, candidate.step, entry.note, entry.digest,
            entry.provider, _yes_or_no(view.result, entry), entry.signer, _doubts(entry),
        ])  # fmt: skip
    return rows


def standing_in_words(standing: ProviderStanding) -> str:
    """`verified since 2026-01-03, 3 datasets since 2025-12-01, signed with the key 0a1b2c3d-...`."""
    told = [f"verified since {day(standing.verified_since)}" if standing.verified_since else "verified"]
    told = told if standing.verified else ["not verified"]
    since = f" since {day(standing.since)}" if standing.since else ""
    told.append(f"{plural(standing.datasets, 'dataset')}{since}")
    told.append("unsigned" if standing.fingerprint is None else f"signs with the key {standing.fingerprint}")
    told += [f"known here as {standing.known_as}"] if standing.known_as else []
    return ", ".join(told)


def _doubts(entry: Entry) -> str | None:
    return "; ".join(flag.text for flag in entry.flags) or None


def _yes_or_no(result: Result, entry: Entry) -> str | None:
    standing = result.standing_of(entry)
    return None if standing is None else "yes" if standing.verified else "no"


def coefficient_rows(result: Result) -> list[tuple[str, float, float | None, float | None]]:
    """The model's coefficients in original units with Fieller's intervals, the intercept first, then own features."""
    return [row[:4] for row in all_coefficient_rows(result)]


COEFFICIENT_COLUMNS = (
    *("column", "coefficient", "lower", "upper"),
    *("exact_lower", "exact_upper", "bound_lower", "bound_upper"),
)
End = float | None
CoefficientRow = tuple[str, float, End, End, End, End, End, End]


def all_coefficient_rows(result: Result) -> list[CoefficientRow]:
    """The same with the estimate's exact error, and with the paper's bound, where there are these."""
    model = result.model
    if model is None:
        return []
    open_ends = (None, None)
    fieller = model.intervals | ({"": model.intercept_interval} if model.intercept_interval else {})
    rows = []
    for name, value in {"": model.intercept, **model.coefficients}.items():
        ends = [pairs.get(name) or open_ends for pairs in (fieller, model.exact_intervals, model.bounds)]
        rows.append((name or "intercept", value, *ends[0], *ends[1], *ends[2]))
    return rows


def result_csv(view: ResultView) -> str:
    """The ranked candidates, one line each, for spreadsheets."""
    return csv_text(COLUMNS, rows_of(view))


def file_name(view: ResultView, suffix: str) -> str:
    """A name for downloads."""
    return safe_file_name(f"saibot-{view.result.request}-{view.target}", suffix)


def _distinct(label: str, used: dict[str, int]) -> str:
    """Two providers may use the same names: a chart needs to tell their rows apart."""
    used[label] = used.get(label, 0) + 1
    return label if used[label] == 1 else f"{label} ({used[label]})"
