"""Two results side by side, in Python: `found.compare(other)`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from saibot.report.comparison import COLUMNS, SideBySide, compare_views, comparison_rows
from saibot.report.picture import Picture, comparison_picture
from saibot.report.result import view_result
from saibot.wire import Result

if TYPE_CHECKING:
    import pandas as pd


class ComparedResults:
    """What was asked and found twice: as a table, a picture, one HTML file. `names` is what the two are called."""

    def __init__(self, first: Result, second: Result, names: tuple[str, str] | None = None) -> None:
        self.comparison: SideBySide = compare_views(view_result(first), view_result(second), names)

    @property
    def headline(self) -> str:
        return self.comparison.headline

    def to_frame(self) -> pd.DataFrame:
        """Every candidate that either ranks: gains of both with their intervals, and whether those meet."""
        import pandas as pd

        frame = pd.DataFrame(comparison_rows(self.comparison), columns=COLUMNS)
        return frame.astype({"first_step": "Int64", "second_step": "Int64"})

    def plot(self, path: Path | str | None = None) -> Picture:
        """R2 step by step and the gains of both: a picture, which notebooks show."""
        drawn = comparison_picture(self.comparison)
        if path is not None:
            drawn.save(path)
        return drawn

    def report(self, path: Path | str) -> None:
        """Write everything as one HTML file that opens offline."""
        from saibot.report.html import write_comparison

        write_comparison(self.comparison, Path(path))

    def _repr_html_(self) -> str:
        from saibot.report.notebook import compared_html

        return compared_html(self.comparison)

    def __repr__(self) -> str:
        return f"ComparedResults({self.headline})"
