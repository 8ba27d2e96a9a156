"""A result as a notebook shows it: the answer in one sentence, the chart, and the steps as a table; or all its pictures."""

from __future__ import annotations

from html import escape

from saibot.errors import SaibotError
from saibot.report.charts import Spec, sized
from saibot.report.comparison import SideBySide
from saibot.report.exploring import ExploredView
from saibot.report.format import fixed, plural
from saibot.report.picture import Picture, comparison_picture, result_picture
from saibot.report.result import ResultView, Stage

WIDTH = 620  # pixels of a chart; of one beside another half


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


def gallery_html(explored: ExploredView) -> str:
    """All pictures below each other, with what stands beside them on a page; what there is not is said."""
    parts = [f"<p><b>{escape(explored.view.headline)}</b></p>"]
    parts += _titled("What one standard deviation of each column changes", [explored.effects_chart])
    if explored.fit is None:
        parts.append("<p>Actual against predicted takes rows: <code>explore(table)</code>.</p>")
    else:
        told = f"Actual against predicted: {plural(explored.fit.rows, 'row')}, {explored.fit.which}"
        parts += _titled(told, [one.spec for one in explored.fit_charts])
        parts.append(_table(explored.fit_heads, explored.fit_rows))
    for one in explored.left:
        parts += _titled(f"Left unexplained by {one.part.key}", [chart.spec for chart in one.charts])
        parts.append(f"<p>{escape(one.spread)} {escape(one.shown)}</p>")
    if not explored.left:
        parts.append(f"<p>{escape(explored.why_nothing_left)}</p>")
    if explored.budget_rows:
        parts += _titled("The same columns at other budgets", [explored.budgets_chart])
        parts.append(_table(explored.budget_heads, explored.budget_rows))
        sentences = (explored.budget_sentence, explored.request_sentence, *explored.budget_reasons)
        parts += [f"<p>{escape(sentence)}</p>" for sentence in sentences if sentence]
    return "\n".join(parts)


def compared_html(comparison: SideBySide) -> str:
    """Two results: which explains more, both charts, and what differs between them."""
    parts = [f"<p><b>{escape(comparison.headline)}</b></p>"]
    try:
        parts.append(comparison_picture(comparison).svg())
    except SaibotError as problem:
        parts.append(f"<p>{escape(str(problem))}</p>")
    parts += [f"<p>{escape(sentence)}</p>" for sentence in (comparison.caution, comparison.pairs_sentence) if sentence]
    parts.append(_table(["", *comparison.names], [row for row in comparison.facts if row[1] != row[2]]))
    return "\n".join(parts)


def _titled(title: str, specs: list[Spec | None]) -> list[str]:
    drawn = [spec for spec in specs if spec is not None]
    if not drawn:
        return []
    try:
        pictures = "".join(Picture(spec | sized(spec, WIDTH // len(drawn))).svg() for spec in drawn)
    except SaibotError as problem:
        pictures = f"<p>{escape(str(problem))}</p>"
    return [f"<p><b>{escape(title)}</b></p>", f"<div>{pictures}</div>"]


def _table(heads: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _steps(view: ResultView) -> str:
    on = "on held-out rows" if view.by_held_out else "on training rows"
    head = f"<tr><th>step</th><th>added</th><th>joined on</th><th>R² {on}</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(_step(view, stage) for stage in view.path)}</tbody></table>"


def _step(view: ResultView, stage: Stage) -> str:
    cells = (str(stage.number), stage.added or stage.label, stage.on, fixed(view.believed(stage)))
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
