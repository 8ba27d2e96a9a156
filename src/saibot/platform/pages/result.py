"""A search's result document as the pages, the report and the CSV file show it."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any

from saibot.platform.pages import charts
from saibot.platform.pages.format import several
from saibot.search.document import checked_document, key_label
from saibot.search.result import UNCLEAR

COLUMNS = (
    *("rank", "dataset", "feature", "kind", "key", "gain", "lower", "upper"),
    *("potential", "potential_lower", "potential_upper", "expected"),
    *("coefficient", "coefficient_lower", "coefficient_upper"),
    *("reliability", "privacy_share", "coverage", "rows", "step", "note", "digest"),
)
OPTIONAL = ("potential", "potential_interval", "expected", "coefficient_interval", "coverage", "privacy_share")


@dataclass(frozen=True)
class ResultView:
    """The document with labels, places and the step that took each candidate."""

    document: dict[str, Any]
    entries: tuple[dict[str, Any], ...]  # ranked candidates: `label`, `on`, `place` and `step` added
    path: tuple[dict[str, Any], ...]  # the base model first
    several_keys: bool

    @property
    def target(self) -> str:
        return str(self.document["target"])

    @property
    def private(self) -> bool:
        return bool(self.document["private"])

    @property
    def held_out(self) -> bool:
        return all(step["test_r2"] is not None for step in self.path)

    @property
    def unclear(self) -> bool:
        """Whether the held-out part is too small for its own privacy noise."""
        return any(step["unclear"] for step in self.path)

    @property
    def held_out_drawn(self) -> bool:
        """Whether there is a held-out R² that its noise leaves readable, for the chart to show."""
        return any(step["test_r2"] is not None and not step["unclear"] for step in self.path)

    @property
    def with_potential(self) -> bool:
        return any(entry["potential"] is not None for entry in self.entries)

    @property
    def with_expected(self) -> bool:
        return any(entry["expected"] is not None for entry in self.entries)

    @property
    def shown(self) -> str:
        """Which R² to believe: the held-out one where there is one that its noise leaves readable."""
        return "test_r2" if self.held_out and not self.unclear else "train_r2"

    @property
    def before(self) -> float:
        return float(self.path[0][self.shown])

    @property
    def after(self) -> float:
        return float(self.path[-1][self.shown])

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        taken = len(self.path) - 1
        if not taken:
            return "No published dataset improves this model by more than its noise."
        new = several(taken, "augmentation")
        on = "held-out rows" if self.shown == "test_r2" else "training rows"
        return f"{new} explain{'s' if taken == 1 else ''} {self.target} better on {on}."

    @property
    def gains_chart(self) -> charts.Spec | None:
        return charts.gains(self.entries) if self.entries else None

    @property
    def path_chart(self) -> charts.Spec | None:
        readable = [step | {"test_r2": None if step["unclear"] else step["test_r2"]} for step in self.path]
        return charts.path(readable) if len(self.path) > 1 else None


def view_result(document: Any) -> ResultView:
    """Check a document and make it ready to be shown."""
    checked = checked_document(document, "the result")
    taken = {_identity(step): i for i, step in enumerate(checked["steps"], start=1)}
    several_keys = len({key_label(entry["key"]) for entry in checked["ranked"]}) > 1
    entries: list[dict[str, Any]] = []
    used: dict[str, int] = {}
    for place, entry in enumerate(checked["ranked"], start=1):
        on = key_label(entry["key"])
        label = _distinct(_label(entry, on if several_keys else ""), used)
        step = taken.get(_identity(entry))
        noise = None if entry["reliability"] is None else 1 - entry["reliability"]
        more = {name: entry.get(name) for name in OPTIONAL}
        more |= {"place": place, "label": label, "what": _what(entry), "on": on, "step": step, "noise_share": noise}
        entries.append(entry | more)
    base = checked["base"]
    path = [base | {"step": 0, "label": "own features", "column": None} | _held_out(base)]
    for number, step in enumerate(checked["steps"], start=1):
        what = step["column"] if step["kind"] != "union" else f"rows of {step['dataset']}"
        facts = {"step": number, "label": f"{number}. + {what}", "column": what, "on": key_label(step["key"])}
        path.append(step | facts | _held_out(step))
    return ResultView(checked, tuple(entries), tuple(path), several_keys)


def result_csv(view: ResultView) -> str:
    """The ranked candidates, one line each, for spreadsheets."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for entry in view.entries:
        low, high = entry["interval"]
        writer.writerow([
            entry["place"], _text(entry["dataset"]), _text(entry["what"]), entry["kind"], _text(entry["on"]),
            entry["gain"], low, high, entry["potential"], *(entry["potential_interval"] or (None, None)),
            entry["expected"], entry["coefficient"], *(entry["coefficient_interval"] or (None, None)), entry["reliability"],
            entry["privacy_share"], entry["coverage"], entry["rows"], entry["step"], _text(entry["note"]), entry["digest"],
        ])  # fmt: skip
    return out.getvalue()


def file_name(view: ResultView, suffix: str) -> str:
    """A name for downloads, of characters that every system takes."""
    words = f"saibot-{view.document['request']}-{view.target}"
    return (
        "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "-" for letter in words)[:80]
        + suffix
    )


def _text(cell: str | None) -> str:
    """Spreadsheets run cells that begin like a formula; names come from strangers, so such cells become plain text."""
    text = cell or ""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _held_out(model: dict[str, Any]) -> dict[str, Any]:
    """The interval of its held-out R², and whether that is so wide that the number itself says nothing."""
    interval = model.get("test_interval")
    return {"test_interval": interval, "unclear": interval is not None and interval[1] - interval[0] > UNCLEAR}


def _identity(entry: dict[str, Any]) -> tuple[str, str, str, str]:
    return entry["digest"], str(entry["feature"]), key_label(entry["key"]), str(entry.get("via"))


def _what(entry: dict[str, Any]) -> str:
    """The feature, or all features that were taken together; nothing for rows."""
    return str(entry["feature"] or ", ".join(entry.get("features", ())))


def _label(entry: dict[str, Any], on: str) -> str:
    name = f"{entry['dataset']}.{_what(entry)}" if entry["kind"] != "union" else f"rows of {entry['dataset']}"
    return f"{name} by {on}" if on else name


def _distinct(label: str, used: dict[str, int]) -> str:
    """Two providers may use the same names: a chart needs to tell their rows apart."""
    used[label] = used.get(label, 0) + 1
    return label if used[label] == 1 else f"{label} ({used[label]})"
