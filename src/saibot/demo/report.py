"""The demo's report: one HTML file that opens anywhere, with no script and nothing fetched."""

from __future__ import annotations

import base64
import hashlib
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from saibot.demo.flights import CAP
from saibot.demo.story import DELTA, EPSILON, OWN, Story

TEMPLATE = Path(__file__).with_suffix(".html")


def write_report(story: Story, path: Path) -> None:
    """Draw the story."""
    from saibot.safe_file import write_safely

    write_safely(path, report_html(story).encode())


def report_html(story: Story) -> str:
    from markupsafe import Markup

    from saibot.platform.pages.render import environment
    from saibot.platform.pages.report import draw, stylesheet
    from saibot.platform.pages.result import view_result

    view = view_result(story.local.result)
    drawings = {name: draw(spec) for name, spec in (("path", view.path_chart), ("gains", view.gains_chart)) if spec}
    style = Markup(stylesheet())
    rows = score_rows(story)
    airline = max(publisher.spent for publisher in story.publishers)
    return (
        environment()
        .from_string(TEMPLATE.read_text(encoding="utf-8"))
        .render(
            story=story,
            view=view,
            private_view=view_result(story.private.result),
            drawings=drawings,
            scores=rows,
            groups=grouped(story),
            scores_chart=draw(scores_chart(rows)),
            style=style,
            style_digest=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
            created=datetime.now(UTC).date().isoformat(),
            spent=f"ε = {at_most(airline)}",
            epsilon=EPSILON,
            delta=DELTA,
            cap=CAP,
        )
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
    scores, chosen = story.scores, len(story.selected)
    columns = f"{chosen} private column{'s' if chosen != 1 else ''}"
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


def scores_chart(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Bars; those that are not private hollow."""
    from saibot.platform.pages.charts import CONFIG

    names = {"field": "label", "type": "nominal", "sort": [row["label"] for row in rows]}
    fill = {"condition": {"test": "datum.private", "value": "@chart-main"}, "value": "@surface"}
    return {
        "description": "R² on held-out flights of four models. The table below has the same numbers.",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": CONFIG,
        "data": {"values": [row | {"told": f"{row['r2']:.3f}"} for row in rows]},
        "height": {"step": 38},
        "encoding": {
            "y": names | {"axis": {"title": None, "labelLimit": 260, "grid": False}},
            "x": {"field": "r2", "type": "quantitative", "axis": {"title": "R² on held-out flights", "tickCount": 6}},
        },
        "layer": [
            {
                "mark": {"type": "bar", "height": 20, "stroke": "@chart-main", "strokeWidth": 1.5},
                "encoding": {"fill": fill},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 6},
                "encoding": {"text": {"field": "told"}, "color": {"value": "@ink"}},
            },
        ],
    }
