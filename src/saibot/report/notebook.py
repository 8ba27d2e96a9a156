"""A result as a notebook shows it: the answer in one sentence, the chart, and the steps as a table."""

from __future__ import annotations

from html import escape

from saibot.errors import SaibotError
from saibot.report.format import fixed, plural
from saibot.report.picture import result_picture
from saibot.report.result import ResultView, Stage


def notebook_html(view: ResultView) -> str:
    """A piece of HTML without script or style sheet. Without the extra `report` the chart is left out."""
    parts = [f"<p><b>{escape(view.headline)}</b></p>"]
    try:
        parts.append(result_picture(view).svg())
    except SaibotError as problem:
        parts.append(f"<p>{escape(str(problem))}</p>")
    parts.append(_steps(view))
    asked = plural(view.result.candidates, "candidate")
    parts.append(f"<p>{asked} scored. {escape(view.result.stopped[:1].upper() + view.result.stopped[1:])}.</p>")
    return "\n".join(parts)


def _steps(view: ResultView) -> str:
    on = "on held-out rows" if view.by_held_out else "on training rows"
    head = f"<tr><th>step</th><th>added</th><th>joined on</th><th>R² {on}</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(_step(view, stage) for stage in view.path)}</tbody></table>"


def _step(view: ResultView, stage: Stage) -> str:
    cells = (str(stage.number), stage.added or stage.label, stage.on, fixed(view.believed(stage)))
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
