"""The demo's report: one HTML file that opens anywhere, with no script and nothing fetched."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from saibot.demo.flights import CAP
from saibot.demo.story import DELTA, EPSILON, OWN, Story
from saibot.report.charts import Spec, chart, name_axis
from saibot.report.exploring import explore_view
from saibot.report.format import fixed, plural
from saibot.report.html import offline_page
from saibot.report.result import view_result
from saibot.safe_file import write_safely


def write_report(story: Story, path: Path) -> None:
    """Draw the story."""
    write_safely(path, report_html(story).encode())


def report_html(story: Story) -> str:
    rows = score_rows(story)
    view = view_result(story.local.result)
    return offline_page(
        "demo.html",
        package="saibot.demo",
        story=story,
        view=view,
        explored=explore_view(view, story.local.explore().fit),
        private_view=view_result(story.private.result),
        scores=rows,
        groups=grouped(story),
        scores_chart=scores_chart(rows),
        spent=f"ε = {at_most(max(publisher.spent for publisher in story.publishers))}",
        epsilon=EPSILON,
        delta=DELTA,
        cap=CAP,
    )


def grouped(story: Story) -> list[dict[str, str]]:
    """Providers that published the same way, in one line."""
    found: dict[tuple[str, str], list[str]] = {}
    for publisher in story.publishers:
        keys = "; ".join(key.replace("_", " and ") for key in publisher.party.keys)
        found.setdefault((keys, at_most(publisher.spent)), []).append(publisher.party.name)
    return [{"names": ", ".join(names), "by": keys, "spent": spent} for (keys, spent), names in found.items()]


def at_most(epsilon: float) -> str:
    """Two digits, rounded up: what was spent is never told smaller than it is (a float may be off by 1e-9)."""
    return f"{math.ceil(epsilon * 100 - 1e-6) / 100:.2f}"


def score_rows(story: Story) -> list[dict[str, Any]]:
    """The four models, the private ones first."""
    scores, columns = story.scores, plural(len(story.selected), "private column")
    return [
        {"label": f"own features: {' and '.join(OWN)}", "who": "JetBlue", "r2": scores.base, "private": True},
        {"label": f"with {columns}, ε = {EPSILON}", "who": "JetBlue, today", "r2": scores.augmented, "private": True},
        {"label": "with the same columns, no noise", "who": "nobody", "r2": scores.same_columns, "private": False},
        {
            "label": f"with all {scores.exact_columns} columns, no noise",
            "who": "nobody",
            "r2": scores.nonprivate,
            "private": False,
        },
    ]


def scores_chart(rows: list[dict[str, Any]], *, on: str = "held-out flights") -> Spec:
    """Bars; those that are not private hollow."""
    fill = {"condition": {"test": "datum.private", "value": "@chart-main"}, "value": "@surface"}
    return chart(
        [row | {"told": fixed(row["r2"])} for row in rows],
        description=f"R² on {on} of {len(rows)} models. The table below has the same numbers.",
        height=38 * len(rows),
        encoding={
            "y": name_axis("label", [row["label"] for row in rows], labelLimit=260),
            "x": {"field": "r2", "type": "quantitative", "axis": {"title": f"R² on {on}", "tickCount": 6}},
        },
        layer=[
            {
                "mark": {"type": "bar", "height": 20, "stroke": "@chart-main", "strokeWidth": 1.5},
                "encoding": {"fill": fill},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 6},
                "encoding": {"text": {"field": "told"}, "color": {"value": "@ink"}},
            },
        ],
    )
