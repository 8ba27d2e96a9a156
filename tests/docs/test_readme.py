"""The README promises commands; they have to be there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

# Only what stands in code counts: prose may well say "make sure".
CODE = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", README, flags=re.DOTALL))
MAKE_IN_README = sorted(set(re.findall(r"\bmake ([a-z][a-z-]*)", CODE)))
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, flags=re.MULTILINE))


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_readme_names_the_two_commands_a_newcomer_needs(command: str) -> None:
    assert command in CODE


@pytest.mark.parametrize("target", MAKE_IN_README)
def test_every_make_target_in_the_readme_exists(target: str) -> None:
    assert target in TARGETS


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_every_make_target_has_a_help_text(target: str) -> None:
    assert re.search(rf"^{target}:.*## \S", MAKEFILE, flags=re.MULTILINE)


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md"])
def test_every_link_of_a_page_that_is_read_in_the_repository_leads_somewhere(name: str) -> None:
    """Pages of docs/ are checked where the site is built."""
    page = ROOT / name
    assert dead_links(page.read_text(encoding="utf-8"), page.parent) == []


def test_a_dead_link_is_noticed() -> None:
    text = '[a](docs/nowhere.md) [b](docs/index.md#nowhere) <img src="no.png"> [c](docs/index.md#when-it-helps) [d](https://x.example)'
    assert dead_links(text, ROOT) == ["docs/nowhere.md", "docs/index.md#nowhere", "no.png"]


def dead_links(text: str, folder: Path) -> list[str]:
    """Links to files that are not there, or to headings that they do not have."""
    found = []
    for link in re.findall(r"(?:\]\(|src=\")(?![a-z]+:)([^)\"\s]+)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        path, _, place = link.partition("#")
        target = folder / path
        if (path and not target.exists()) or (place and place not in headings(target.read_text("utf-8") if path else text)):
            found.append(link)
    return found


def headings(text: str) -> set[str]:
    """As links name them: `## What "gone" means` is what-gone-means."""
    lines = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), flags=re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", line.lower()).strip()) for line in lines}
