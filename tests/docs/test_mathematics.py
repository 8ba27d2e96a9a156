"""What the code cites is written down: every reference to docs/explanation/mathematics.md names a heading of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "mathematics.md").read_text()
HEADINGS = set(re.findall(r"^## (.+)$", PAGE, re.MULTILINE))
CITING = sorted(path for folder in ("src", "research", "tests", "docs") for path in (ROOT / folder).rglob("*.py"))
REFERENCE = re.compile(r"mathematics\.md,\s+\"([^\"]+)\"")


def references(path: Path) -> list[str]:
    return [" ".join(heading.split()) for heading in REFERENCE.findall(path.read_text())]


@pytest.mark.parametrize("path", [p for p in CITING if references(p)], ids=lambda path: str(path.relative_to(ROOT)))
def test_a_reference_to_a_formula_names_a_heading(path: Path) -> None:
    assert set(references(path)) <= HEADINGS


def test_every_heading_names_modules_that_exist() -> None:
    for heading in HEADINGS:
        section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
        modules = re.findall(r"`((?:semiring|privacy|privatize|estimate|search|research)/[\w/]+\.py)`", section)
        assert modules, f"{heading} does not say where it is implemented"
        places = [
            ROOT / module if module.startswith("research/") else ROOT / "src" / "saibot" / module for module in modules
        ]
        assert [str(place) for place in places if not place.is_file()] == []


def test_no_module_cites_a_formula_that_is_not_in_the_repository() -> None:
    cites = re.compile(r"\bFORMULAS\b|\(A\d+[,)]|\b(?:as in|of) A\d+\b")
    citing = [path for path in CITING if path != Path(__file__) and cites.search(path.read_text())]
    assert [str(path.relative_to(ROOT)) for path in citing] == []
