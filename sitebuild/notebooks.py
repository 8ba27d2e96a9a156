"""Notebooks of examples/: run from top to bottom, and made into pages with what they printed and drew.

They are kept without outputs, since noise is new in every run. A cell runs as Jupyter would run it: what its last line says
is shown. Figures are drawn twice, for light and for dark pages.
"""

from __future__ import annotations

import ast
import contextlib
import html
import io
import json
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sitebuild.borrowed import seen_from

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
INK = {"light": "#17212b", "dark": "#e8edf1"}
_ROWS, _COLUMNS = 12, 12  # of a frame that is shown


@dataclass(frozen=True)
class Shown:
    """One thing below a cell: text, a table, or a figure in both colour schemes."""

    kind: str  # "text", "table" or "figure"
    content: str = ""
    pictures: dict[str, bytes] = field(default_factory=dict)


@dataclass
class NotebookPage:
    markdown: str
    pictures: dict[str, bytes]


def stands_for() -> dict[str, str]:
    return {f"examples/{path.name}": f"notebooks/{path.stem}.md" for path in sorted(EXAMPLES.glob("*.ipynb"))}


def pages(*, quick: bool) -> dict[str, NotebookPage]:
    """Every notebook as a page; with `quick` they are not run, and say so."""
    return {f"notebooks/{path.stem}.md": page(path, run=not quick) for path in sorted(EXAMPLES.glob("*.ipynb"))}


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return found


# ------------------------------------------------------------------------------------------------ running


def run(path: Path) -> tuple[dict[str, Any], list[list[Shown]]]:
    """The names that a notebook ends with, and what is shown below each of its code cells."""
    names: dict[str, Any] = {"__name__": "__notebook__"}
    shown = []
    for cell in cells(path):
        if cell["cell_type"] == "code":
            if cell["outputs"]:
                raise ValueError(f"{path.name}: notebooks are kept without outputs")
            shown.append(_run_cell("".join(cell["source"]), f"{path.name}:{cell['id']}", names))
    return names, shown


def _run_cell(source: str, where: str, names: dict[str, Any]) -> list[Shown]:
    body = ast.parse(source, where)
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(body, where, "exec"), names)
        if isinstance(last, ast.Expr) and not source.rstrip().endswith(";"):
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
        elif last is not None:
            exec(compile(ast.Module([last], []), where, "exec"), names)
    shown = [Shown("text", printed.getvalue())] if printed.getvalue().strip() else []
    figures = _figures()
    if value is not None and not (figures and type(value).__module__.startswith(("matplotlib", "numpy"))):
        shown.append(_as_shown(value))
    return [*shown, *figures]


def _as_shown(value: Any) -> Shown:
    if type(value).__module__.startswith("pandas") and hasattr(
        value, "to_frame" if not hasattr(value, "to_html") else "to_html"
    ):
        frame = value if hasattr(value, "to_html") else value.to_frame()
        text = frame.to_html(
            border=0, max_rows=_ROWS, max_cols=_COLUMNS, na_rep="–", float_format=lambda number: f"{number:.4g}"
        )
        text = text.replace("&lt;NA&gt;", "–")  # of columns that pandas keeps missing values of in its own way
        return Shown("table", re.sub(r' style="[^"]*"| class="dataframe"', "", text))
    if hasattr(value, "_repr_svg_") and (drawn := value._repr_svg_()):
        return Shown("figure", pictures={"light": drawn.encode(), "dark": drawn.encode()})
    from pprint import pformat

    return Shown("text", pformat(value, width=100, compact=True) if isinstance(value, list | dict | tuple) else repr(value))


def _figures() -> list[Shown]:
    """Whatever matplotlib has open, drawn and closed."""
    plots: Any = sys.modules.get("matplotlib.pyplot")
    if plots is None:
        return []
    found = []
    for number in plots.get_fignums():
        figure = plots.figure(number)
        titles = [axes.get_title() or axes.get_ylabel() for axes in figure.axes]
        words = figure.get_suptitle() or "; ".join(title for title in titles if title)
        found.append(Shown("figure", words, {scheme: drawn_figure(figure, ink) for scheme, ink in INK.items()}))
        plots.close(figure)
    return found


def drawn_figure(figure: Any, ink: str, *, keep_text: bool = False) -> bytes:
    """A figure as SVG without a background, with its lines and words in this ink; `keep_text`: labels keep their colours."""
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend
    from matplotlib.text import Annotation, Text

    figure.patch.set_alpha(0)
    for text in figure.findobj(Text):
        if not (keep_text and isinstance(text, Annotation)):
            text.set_color(ink)
    for axes in figure.findobj(Axes):
        axes.patch.set_alpha(0)
        axes.tick_params(which="both", color=ink, labelcolor=ink)
        for spine in axes.spines.values():
            spine.set_edgecolor(ink)
    for legend in figure.findobj(Legend):
        legend.get_frame().set_alpha(0)
    drawn = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "font.family": "sans-serif", "svg.hashsalt": "saibot"}):
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return drawn.getvalue()


# ------------------------------------------------------------------------------------------------ pages


def page(path: Path, *, run: bool = True) -> NotebookPage:
    shown = iter(_run_apart(path)) if run else None
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in cells(path):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(seen_from(f"notebooks/{path.stem}.md", f"examples/{path.name}", source))
            continue
        parts.append(f"```python\n{source}\n```")
        for thing in next(shown) if shown else ():
            if thing.kind == "figure":
                names = {scheme: f"{path.stem}-{len(pictures) // 2 + 1}-{scheme}.svg" for scheme in INK}
                pictures |= {f"notebooks/{names[scheme]}": thing.pictures[scheme] for scheme in INK}
                words = re.sub(r"[\[\]\"]", "", thing.content) or "A plot of the numbers above"
                images = "".join(
                    f'<img class="plot only-{scheme}" src="{names[scheme]}" alt="{html.escape(words)}">' for scheme in INK
                )
                parts.append(f'<div class="output" tabindex="0" role="region" aria-label="Plot">{images}</div>')
            elif thing.kind == "table":
                parts.append(f'<div class="output">\n{thing.content}\n</div>')
            else:
                parts.append(f'<div class="output"><pre>{html.escape(thing.content.rstrip())}</pre></div>')
    heading, _, rest = "\n\n".join(parts).partition("\n")
    about = f"A notebook of `examples/{path.name}`, " + (
        "run from top to bottom when this guide was built; noise is new in every run."
        if run
        else "shown here without what it prints: this guide was built in the quick way."
    )
    return NotebookPage(f"{heading}\n\n*{about}*\n{rest}\n", pictures)


def _run_apart(path: Path) -> list[list[Shown]]:
    """In a folder and with a ledger of its own, and with pictures drawn to files."""
    before, here = dict(os.environ), Path.cwd()
    with TemporaryDirectory() as folder:
        os.environ |= {"SAIBOT_HOME": str(Path(folder) / "home"), "MPLBACKEND": "agg"}
        os.chdir(folder)
        try:
            return run(path)[1]
        finally:
            os.chdir(here)
            os.environ.clear()
            os.environ.update(before)
