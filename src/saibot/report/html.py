"""Results as HTML: the templates that pages and reports share, and reports as one file each.

Such a file runs no script and fetches nothing, follows light and dark, and prints well.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from saibot import __version__
from saibot.errors import InvalidInput
from saibot.report import format
from saibot.report.charts import Spec
from saibot.report.comparison import SideBySide
from saibot.report.exploring import explore_view
from saibot.report.extra import missing
from saibot.report.picture import drawing, load_vl_convert, stylesheet
from saibot.report.result import view_result
from saibot.safe_file import write_safely
from saibot.wire import FitOnRows, Result

try:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape
    from markupsafe import Markup
except ImportError as problem:
    raise missing(problem) from None

OWN = "saibot.report"
FILTERS = (
    "number",
    "signed",
    "fixed",
    "percent",
    "count",
    "with_error",
    "size",
    "day",
    "minute",
    "plural",
    "epsilon",
    "delta",
)


def environment(package: str = OWN) -> Environment:
    """The templates of a package beside those of this room; autoescaping, and undefined names are errors.

    `offline` says whether the page is a file by itself: charts are then drawn here, otherwise by the page's script.
    """
    made = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, OWN))]),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {name: getattr(format, name) for name in FILTERS}
    made.filters |= {name: _without_break(getattr(format, name)) for name in ("percent", "with_error")}
    made.filters |= {"data": data_block, "drawn": _drawn, "unbroken": format.unbroken, "whole_words": whole_words}
    made.globals |= {"version": __version__, "offline": False}
    return made


def data_block(document: Any) -> Markup:
    """JSON for a `<script type="application/json">`, in which no text can end the element or open a comment."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def whole_words(text: str) -> Markup:
    """Text to copy, in which no line ends within an option: a browser would end one behind the hyphens of `--card`."""
    parts = re.split(r"(\s+)", text)
    whole = Markup("<span>{}</span>")
    return Markup("").join(whole.format(part) if part.startswith("-") else part for part in parts)


def _without_break(told: Callable[..., str]) -> Callable[..., str]:
    """For pages, whose lines end where the window does; terminals and files keep plain spaces."""
    return lambda *values, **named: format.unbroken(told(*values, **named))


def _drawn(spec: Spec, half: bool = False) -> Markup:
    return Markup(drawing(spec, half))


def offline_page(template: str, *, package: str = OWN, created: str | None = None, **context: Any) -> str:
    """A file by itself, from a template that extends `report.html`; `created` is the day on it: today unless given."""
    style = stylesheet()
    return (
        _offline(package)
        .get_template(template)
        .render(
            style=Markup(style),
            style_digest=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
            created=datetime.now(UTC).date().isoformat() if created is None else created,
            **context,
        )
    )


def report_html(
    document: Result | Mapping[str, Any],
    fit: FitOnRows | None = None,
    *,
    epsilon: float | None = None,
    created: str | None = None,
) -> str:
    """A search's result as one HTML file; with what its model says of the requester's own rows, where that was computed."""
    view = view_result(document)
    explored = explore_view(view, fit, epsilon=epsilon)
    return offline_page("result_report.html", created=created, view=view, explored=explored)


def write_report(
    document: Result | Mapping[str, Any], path: Path, fit: FitOnRows | None = None, *, epsilon: float | None = None
) -> None:
    check_can_write(path)
    write_safely(path, report_html(document, fit, epsilon=epsilon).encode())


def comparison_html(comparison: SideBySide, *, created: str | None = None) -> str:
    """Two results side by side, as one HTML file."""
    return offline_page("comparison_report.html", created=created, comparison=comparison)


def write_comparison(comparison: SideBySide, path: Path) -> None:
    check_can_write(path)
    write_safely(path, comparison_html(comparison).encode())


def check_can_write(path: Path) -> None:
    """Refuse what cannot be written before anything takes time."""
    load_vl_convert()
    if path.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"a report is an .html file, not {path.name}.")


@cache
def _offline(package: str) -> Environment:
    made = environment(package)
    made.globals["offline"] = True
    return made
