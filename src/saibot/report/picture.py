"""Charts drawn by vl-convert: as SVG inside a report, and as a PNG, SVG or PDF file of their own."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Literal

from saibot.errors import InvalidInput
from saibot.report import charts
from saibot.report.charts import Spec
from saibot.report.comparison import SideBySide
from saibot.report.extra import missing
from saibot.report.result import ResultView
from saibot.safe_file import write_safely

STYLESHEET = Path(__file__).parent / "static" / "report.css"
SUFFIXES = (".png", ".svg", ".pdf")
REPORT_WIDTH = 760  # pixels of a chart in a report
HALF_WIDTH = 430  # and of one beside another
SLIM_WIDTH = 330  # and of one on a phone
MOST_TWICE = 400_000  # letters of a drawing that is in a file twice
PANEL_WIDTH = 420  # and of each of two side by side
MOST_CANDIDATES = 12  # of a picture
SHARP = 2.0  # pixels of a PNG for each of the drawing's
_NAME = re.compile(r"@([a-z-]+)")
_NAMESPACE = re.compile(r' xmlns(?::xlink)?="[^"]*"')  # HTML needs none: a report holds no address at all
_VARIABLE = re.compile(r"--([a-z-]+):\s*([^;]+);")


@dataclass(frozen=True)
class Picture:
    """A drawing in the light colours. Notebooks show it as it is; `save` writes it."""

    spec: Spec

    def svg(self) -> str:
        drawn: str = load_vl_convert().vegalite_to_svg(self._text())
        return drawn

    def save(self, path: Path | str) -> None:
        """Written as the ending of its name says: .png, .svg or .pdf."""
        path = Path(path)
        check_can_save(path)
        draw = load_vl_convert()
        if path.suffix.lower() == ".svg":
            content = self.svg().encode()
        elif path.suffix.lower() == ".pdf":
            content = draw.vegalite_to_pdf(self._text())
        else:
            content = draw.vegalite_to_png(self._text(), scale=SHARP)
        write_safely(path, content)

    def _repr_svg_(self) -> str:
        return self.svg()

    def _text(self) -> str:
        light = colours()
        return json.dumps(_coloured(self.spec, light.__getitem__) | {"background": light["surface"]})


def result_picture(view: ResultView) -> Picture:
    """R² step by step, and beside it every candidate's gain with its interval."""
    panels = {"R² step by step": charts.path(view.path, by_held_out=view.by_held_out)}
    if view.entries:
        panels["gain in R² of each candidate by itself, with its interval"] = charts.gains(view.entries[:MOST_CANDIDATES])
    how = "private request: its own noise is in every number" if view.private else "local request: its own numbers are exact"
    title = f"{view.result.request}: what explains {view.target}"
    return Picture(charts.side_by_side(panels, title=title, subtitle=how, width=PANEL_WIDTH))


def comparison_picture(comparison: SideBySide) -> Picture:
    """R² step by step of two results, and beside it their candidates' gains with their intervals."""
    panels = {"R² step by step": comparison.steps_chart}
    if (gains := comparison.gains_chart) is not None:
        panels["gain in R² of each candidate by itself"] = gains
    title = f"{comparison.names[0]} and {comparison.names[1]}"
    return Picture(charts.side_by_side(panels, title=title, subtitle=comparison.headline, width=PANEL_WIDTH))


def check_can_save(path: Path) -> None:
    """Refuse what cannot be written before anything takes time."""
    load_vl_convert()
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidInput(f"a picture is a .png, .svg or .pdf, not {path.name}.")


def drawing(spec: Spec, half: bool = False) -> str:
    """A chart as SVG for an HTML file. Its colours are stand-ins that rules of `stylesheet` replace, so that dark mode
    reaches them.

    One of the whole width comes twice, as wide as a page and as wide as a phone, and the stylesheet shows one of them; a
    map of thousands of shapes comes once.
    """
    broad = _svg(spec, HALF_WIDTH if half else REPORT_WIDTH)
    if half or len(broad) > MOST_TWICE:
        return broad
    slim = _svg(spec, SLIM_WIDTH).replace('id="clip', 'id="slim-clip').replace("url(#clip", "url(#slim-clip")
    return broad.replace("<svg ", '<svg data-width="broad" ', 1) + slim.replace("<svg ", '<svg data-width="slim" ', 1)


def _svg(spec: Spec, width: int) -> str:
    svg: str = load_vl_convert().vegalite_to_svg(json.dumps(_coloured(spec, _stand_in) | charts.sized(spec, width)))
    told = escape(str(spec.get("description", "chart")), quote=True)
    return _NAMESPACE.sub("", svg).replace("<svg ", f'<svg role="img" aria-label="{told}" ', 1)


@cache
def stylesheet() -> str:
    """The style of reports and, for every stand-in colour, the variable it stands for."""
    css = STYLESHEET.read_text(encoding="utf-8")
    rules = []
    for name in sorted({name for name, _ in _VARIABLE.findall(css)}):
        colour = _stand_in(name)
        rules.append(f'svg [fill="{colour}"]{{fill:var(--{name})}}svg [stroke="{colour}"]{{stroke:var(--{name})}}')
    return css + "\n" + "\n".join(rules)


@cache
def colours(scheme: Literal["light", "dark"] = "light") -> dict[str, str]:
    """The stylesheet's variables: what it says before its dark scheme, which then changes some of them."""
    light, _, rest = STYLESHEET.read_text(encoding="utf-8").partition("@media (prefers-color-scheme: dark)")
    dark = dict(_VARIABLE.findall(rest.partition("}")[0])) if scheme == "dark" else {}
    return dict(_VARIABLE.findall(light)) | dark


def _stand_in(name: str) -> str:
    """A colour nobody would choose, one for each name."""
    return "#" + hashlib.sha256(name.encode()).hexdigest()[:6]


def _coloured(part: Any, colour: Callable[[str], str]) -> Any:
    """The specification with colours for their names; data are left as they are."""
    if isinstance(part, dict):
        return {name: value if name == "values" else _coloured(value, colour) for name, value in part.items()}
    if isinstance(part, list):
        return [_coloured(value, colour) for value in part]
    if isinstance(part, str) and (found := _NAME.fullmatch(part)):
        return colour(found[1])
    return part


def load_vl_convert() -> Any:
    """Loaded when something is drawn: it brings a whole JavaScript engine along."""
    try:
        import vl_convert
    except ImportError as problem:
        raise missing(problem) from None
    return vl_convert
