"""A result as pictures and tables of its own, in Python: `found.explore()`, or `found.explore(table)` with rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from saibot.report.charts import sized
from saibot.report.exploring import ExploredView, explore_view
from saibot.report.picture import Picture
from saibot.report.result import view_result
from saibot.wire import FitOnRows, KeyResiduals, Result

if TYPE_CHECKING:
    import pandas as pd

WIDTH = 640  # pixels of a picture


class Explored:
    """What a result changes, leaves unexplained and predicts, and what its columns would be at another epsilon.

    `fit` is what its model says of rows of one's own: None where no rows are at hand.
    """

    def __init__(self, result: Result, fit: FitOnRows | None = None, *, epsilon: float | None = None) -> None:
        self.result, self.fit = result, fit
        self._view: ExploredView = explore_view(view_result(result), fit, epsilon=epsilon)

    def at(self, epsilon: float) -> Explored:
        """The same, asking about another epsilon."""
        return Explored(self.result, self.fit, epsilon=epsilon)

    def residuals(self) -> pd.DataFrame:
        """The mean of target less prediction by key, before any column was added and after, in the target's unit."""
        import pandas as pd

        parts: tuple[KeyResiduals, ...] = tuple(one.part for one in self._view.left)
        columns = ("key", "rows", "before", "before_error", "after", "after_error")
        frames = []
        for part in parts:
            nothing = (None,) * len(part.keys)
            cells = (
                part.keys,
                part.rows,
                part.before or nothing,
                part.before_error or nothing,
                part.after,
                part.after_error,
            )
            frames.append(pd.DataFrame(dict(zip(columns, cells, strict=True))).assign(part=part.key))
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=[*columns, "part"])

    def what_if(self) -> pd.DataFrame:
        """Every column at every epsilon: the share of signal that it would keep, and the gain, with their intervals."""
        import pandas as pd

        rows: list[dict[str, Any]] = []
        asked = self.result.what_if
        for one in asked.columns if asked is not None else ():
            for place, epsilon in enumerate(asked.epsilons if asked is not None and one.kept else ()):
                kept, gain = one.kept_interval[place] or (None, None), one.gain_interval[place] or (None, None)
                row = {"column": one.name, "taken": one.taken, "epsilon": epsilon, "kept": one.kept[place]}
                row |= {"kept_lower": kept[0], "kept_upper": kept[1], "gain": one.gain[place]}
                rows.append(row | {"gain_lower": gain[0], "gain_upper": gain[1]})
        names = ("column", "taken", "epsilon", "kept", "kept_lower", "kept_upper", "gain", "gain_lower", "gain_upper")
        return pd.DataFrame(rows, columns=names)

    @property
    def pictures(self) -> dict[str, Picture]:
        """Every picture that there is, by name; each is shown by notebooks and has `save`."""
        view = self._view
        drawn = {
            "steps": view.view.path_chart,
            "gains": view.view.gains_chart,
            "coefficients": view.effects_chart,
            "budgets": view.budgets_chart,
        }
        found = {name: _picture(spec) for name, spec in drawn.items() if spec is not None}
        found |= {f"predicted {one.title}": _picture(one.spec, one.title) for one in view.fit_charts}
        for left in view.left:
            name = f"left unexplained by {left.part.key}"
            found |= {f"{name} {one.title}".rstrip(): _picture(one.spec, one.title) for one in left.charts}
        return found

    def report(self, path: Path | str) -> None:
        """Write everything as one HTML file that opens offline. With rows it holds points of them: keep it like them."""
        from saibot.report.html import write_report

        write_report(self.result, Path(path), self.fit, epsilon=self._view.epsilon)

    def _repr_html_(self) -> str:
        from saibot.report.notebook import gallery_html

        return gallery_html(self._view)

    def __repr__(self) -> str:
        return f"Explored({', '.join(self.pictures)})"


def _picture(spec: dict[str, Any], title: str = "") -> Picture:
    return Picture(spec | {"padding": 12} | sized(spec, WIDTH) | ({"title": title} if title else {}))
