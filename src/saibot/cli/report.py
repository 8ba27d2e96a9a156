"""`--report FILE`: a result as one HTML file, the same that the platform's result page offers to download."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from saibot.wire import Result

ReportOption = Annotated[
    Path | None, typer.Option("--report", help="Write the result as one .html file that opens offline.")
]


def check_report(path: Path | None) -> None:
    """Refuse what cannot be written before anything takes time."""
    from saibot.errors import InvalidInput

    if path is not None and path.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"--report writes .html, not {path.name}.")


def write_report(result: Result | Mapping[str, Any], path: Path) -> None:
    from datetime import UTC, datetime

    from saibot.errors import InvalidInput
    from saibot.safe_file import write_safely

    try:
        from saibot.platform.pages.report import report_html
    except ImportError:
        raise InvalidInput("reports need the platform's packages.", hint="pip install 'saibot[platform]'") from None
    write_safely(path, report_html(result, created=datetime.now(UTC).date().isoformat()).encode())
