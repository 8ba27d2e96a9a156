"""A search's result as one HTML file: no script, nothing fetched, prints well. `saibot search --report` writes it, too."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from markupsafe import Markup

from saibot.errors import InvalidInput
from saibot.platform.pages.charts import Spec
from saibot.platform.pages.render import STATIC, render
from saibot.platform.pages.result import view_result
from saibot.wire import Result

CHART_WIDTH = 760
_NAME = re.compile(r"@([a-z-]+)")


def report_html(document: Result | Mapping[str, Any], *, created: str = "") -> str:
    """The whole report as text; `created` is the day to print on it."""
    view = view_result(document)
    drawings = {name: draw(spec) for name, spec in (("path", view.path_chart), ("gains", view.gains_chart)) if spec}
    style = Markup(stylesheet())
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return render("report.html", view=view, drawings=drawings, style=style, style_digest=digest, created=created)


def draw(spec: Spec) -> Markup:
    """A chart as SVG. Its colours are stand-ins that the stylesheet's rules replace, so that dark mode reaches them."""
    try:
        import vl_convert
    except ImportError:
        raise InvalidInput("reports need vl-convert-python.", hint="pip install 'saibot[platform]'") from None
    fixed = _coloured(spec) | {"width": CHART_WIDTH}
    svg: str = vl_convert.vegalite_to_svg(json.dumps(fixed))
    svg = re.sub(r"<svg ", '<svg role="img" ', svg, count=1)
    return Markup(svg)


@cache
def stylesheet() -> str:
    """The pages' own stylesheet and, for every stand-in colour, the variable it stands for."""
    css = (STATIC / "saibot.css").read_text(encoding="utf-8")
    rules = []
    for name in sorted(set(re.findall(r"--([a-z-]+):", css))):
        stand_in = _stand_in(name)
        rules.append(f'svg [fill="{stand_in}"]{{fill:var(--{name})}}svg [stroke="{stand_in}"]{{stroke:var(--{name})}}')
    return css + "\n" + "\n".join(rules)


def _stand_in(name: str) -> str:
    """A colour nobody would choose, one for each name."""
    return "#" + hashlib.sha256(name.encode()).hexdigest()[:6]


def _coloured(part: Any) -> Any:
    """The specification with stand-ins for its colour names; data are left as they are."""
    if isinstance(part, dict):
        return {name: value if name == "values" else _coloured(value) for name, value in part.items()}
    if isinstance(part, list):
        return [_coloured(value) for value in part]
    if isinstance(part, str) and (found := _NAME.fullmatch(part)):
        return _stand_in(found[1])
    return part
