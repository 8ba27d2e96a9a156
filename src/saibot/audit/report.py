"""The audit as one HTML file that opens anywhere: no script, nothing fetched, light and dark."""

from __future__ import annotations

import json
from pathlib import Path

from saibot.audit.charts import ratios_chart, separations_chart
from saibot.audit.run import Audit
from saibot.report.html import offline_page
from saibot.safe_file import write_safely


def write_report(found: Audit, folder: Path) -> None:
    """report.html to look at, report.json to compute with."""
    folder.mkdir(parents=True, exist_ok=True)
    write_safely(folder / "report.html", report_html(found).encode())
    write_safely(folder / "report.json", (json.dumps(found.to_json(), indent=1, ensure_ascii=False) + "\n").encode())


def report_html(found: Audit) -> str:
    return offline_page(
        "audit.html",
        package="saibot.audit",
        found=found,
        ratios_chart=ratios_chart([ratio for outcome in found.outcomes for ratio in outcome.ratios]),
        separations_chart=separations_chart(found.releases) if found.releases else None,
    )
