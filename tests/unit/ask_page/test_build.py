"""The page in one file: it names its own script and style, and may reach nothing else."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

import saibot
from saibot.ask_page import ask_page, build


def policy() -> dict[str, str]:
    (content,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', ask_page())
    return dict(rule.split(" ", 1) for rule in content.split("; "))


def inner(tag: str) -> str:
    page = ask_page()
    return page[page.index(f"<{tag}>") + len(tag) + 2 : page.rindex(f"</{tag}>")]


def test_the_policy_allows_this_script_and_this_style_and_no_address():
    def hash_of(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert policy() == {
        "default-src": "'none'",
        "script-src": hash_of(inner("script")),
        "style-src": hash_of(inner("style")),
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_the_page_names_no_address_and_no_way_to_reach_one():
    page = ask_page()
    assert re.findall(r"https?://(?!\.\*)", page.replace("https?:", "")) == []
    script = inner("script")
    for way in (
        "fetch(",
        "XMLHttpRequest",
        "WebSocket",
        "EventSource",
        "sendBeacon",
        "import(",
        "Worker",
        "localStorage",
        "eval(",
        "innerHTML",
        "Math.random",
    ):
        assert way not in script, way
    assert not re.findall(r"""\b(src|href|action|srcset)=["'](?!#)""", page[: page.index("<script>")])


def test_modules_are_joined_after_those_that_they_import():
    script = inner("script")
    assert script.startswith('"use strict";\n') and "\nimport " not in script and "\nexport " not in script
    names = re.findall(r'^modules\["([a-z0-9_]+\.js)"\] = ', script, re.MULTILINE)
    assert sorted(names) == sorted(path.name for path in (build.HERE / "script").glob("*.js"))
    for at, name in enumerate(names):
        for _, imported in build._IMPORT.findall(build._source(name)):
            assert imported in names[:at]


def test_modules_that_import_each_other_are_refused(monkeypatch: pytest.MonkeyPatch):
    sources = {"page.js": 'import { a } from "./other.js";\n', "other.js": 'import { b } from "./page.js";\n'}
    monkeypatch.setattr(build, "_source", sources.__getitem__)
    with pytest.raises(ValueError, match=r"page\.js other\.js page\.js"):
        build._script()


def test_every_import_is_there_and_is_used():
    for path in (build.HERE / "script").glob("*.js"):
        source = path.read_text(encoding="utf-8")
        for names, module in build._IMPORT.findall(source):
            exported = {found[1] for found in build._EXPORT.findall(build._source(module))}
            for name in re.findall(r"\w+", names):
                assert name in exported, f"{path.name}: {module} has no {name}"
                assert len(re.findall(rf"\b{name}\b", source)) > 1, f"{path.name} does not use {name}"


def test_the_same_version_gives_the_same_bytes():
    first = ask_page()
    ask_page.cache_clear()
    assert ask_page() == first and f"Saibot {saibot.__version__}" in first
