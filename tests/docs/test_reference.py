"""The reference pages are what sitebuild/reference.py writes, and nothing that exists is missing from them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from sitebuild import reference

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SAYS = [path for path in (*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "examples" / "README.md")]


@cache
def pages() -> dict[str, str]:
    return reference.pages()


@pytest.mark.parametrize("name", ["commands.md", "saibot.1", "http.md", "settings.md", "vocabularies.md"])
def test_a_reference_page_is_current(name):
    assert (DOCS / "reference" / name).read_text(encoding="utf-8") == pages()[f"reference/{name}"], "run `make docs`"


def test_every_command_explains_itself_and_each_of_its_options():
    for name, command in reference.commands():
        assert command.help and len(command.help.split()) > 2, name
        for option in command.params:
            if option.name not in ("help", "install_completion", "show_completion"):
                assert option.help, f"saibot {name}: {option.name}"


def test_every_command_can_print_json():
    for name, command in reference.commands():
        assert any("--json" in option.opts for option in command.params), name


def test_every_setting_explains_itself():
    from saibot.platform import Settings

    assert all(field.description for field in Settings.model_fields.values())
    assert all(f"SAIBOT_{name.upper()}" in pages()["reference/settings.md"] for name in Settings.model_fields)


def test_every_variable_that_the_code_reads_is_documented():
    read = set()
    for path in (ROOT / "src").rglob("*.py"):
        read |= set(re.findall(r"environ(?:\.get\(|\[)\"(SAIBOT_[A-Z_]+)\"", path.read_text(encoding="utf-8")))
    told = "\n".join(path.read_text(encoding="utf-8") for path in SAYS)
    assert read and {name for name in read if name not in told} == set()


@pytest.mark.parametrize("path", SAYS, ids=lambda path: path.name)
def test_every_command_that_a_page_names_exists(path):
    known = {name for name, _ in reference.commands()} | {name.split()[0] for name, _ in reference.commands()}
    text = path.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, flags=re.DOTALL))
    named = set(re.findall(r"(?:^|[\s`=(/])saibot ([a-z]+(?:-[a-z]+)*)\b(?![.=])", code, flags=re.MULTILINE))
    assert {name for name in named if name not in known} == set()


@pytest.mark.parametrize("path", SAYS, ids=lambda path: path.name)
def test_every_option_in_a_shell_example_exists(path):
    options = {
        name: {o for p in command.params for o in (*p.opts, *p.secondary_opts)} for name, command in reference.commands()
    }
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for block in re.findall(r"```(?:sh|bash)\n(.*?)```", text, flags=re.DOTALL):
        for line in re.split(r"\n|&&", block):
            found = re.search(r"\bsaibot ((?:token|domains|searches) [a-z]+|[a-z]+)(.*)", line.split("#")[0])
            if found and found[1] in options:
                wrong = set(re.findall(r"(?<=\s)(--[a-z-]+)", found[2])) - options[found[1]] - {"--help"}
                assert not wrong, line


@pytest.mark.parametrize("path", SAYS, ids=lambda path: path.name)
def test_every_local_link_leads_somewhere(path):
    for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        made = (path.parent / link).resolve().is_relative_to(DOCS / "reference" / "python")  # by the build of the site
        assert made or (path.parent / link).exists(), link
