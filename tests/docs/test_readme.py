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


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#:]+)\)|src=\"([^\":]+)\"", README))))
def test_every_local_link_in_the_readme_leads_somewhere(link: tuple[str, str]) -> None:
    assert (ROOT / "".join(link)).exists()
