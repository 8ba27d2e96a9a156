"""Pages of the site that are kept elsewhere in the repository, because they belong beside what they are about: the proofs
beside their mechanisms, the changelog beside the code."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROOFS = ROOT / "src" / "saibot" / "privacy" / "mechanisms"
CHANGELOG = "reference/changelog.md"


def stands_for() -> dict[str, str]:
    """File of the repository -> the page below docs/ that shows it."""
    proofs = {
        str(path.relative_to(ROOT)): f"explanation/proofs/{path.name.removesuffix('.proof.md')}.md"
        for path in sorted(PROOFS.glob("*.proof.md"))
    }
    return proofs | {"CHANGELOG.md": CHANGELOG}


def pages() -> dict[str, str]:
    """Page -> its Markdown, with links as seen from where the site has it."""
    return {page: seen_from(page, source, (ROOT / source).read_text("utf-8")) for source, page in stands_for().items()}


def seen_from(page: str, source: str, text: str) -> str:
    """A file's text with its links as they are from the place that its page has."""
    here, there = Path("docs") / Path(page).parent, Path(source).parent

    def moved(found: re.Match[str]) -> str:
        link = found[1]
        if re.match(r"[a-z]+:|#|/", link):
            return found[0]
        path, _, anchor = link.partition("#")
        return f"]({os.path.relpath(there / path, here)}{'#' + anchor if anchor else ''})"

    return re.sub(r"\]\(([^)\s]+)\)", moved, text)
