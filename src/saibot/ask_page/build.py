"""The page in one file: template, styles and scripts joined, and a policy that forbids it every connection.

Scripts are written as modules, each with one idea. A page from disk cannot load modules, so they are joined into one script,
in which every module is a function of its own that gives what it exports. The policy names the script and the style by their
hashes: nothing else runs, nothing is fetched, nothing is sent.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from saibot import __version__

PACKAGE = Path(__file__).resolve().parents[1]
HERE = PACKAGE / "ask_page"
STYLES = ("report/static/report.css", "platform/pages/static/saibot.css", "ask_page/page.css")
ENTRY = "page.js"
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./([a-z0-9_]+\.js)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


@cache
def ask_page() -> str:
    """The whole page. The same version of Saibot gives the same bytes."""
    style, script = _style(), f'"use strict";\n{_script()}'
    page = (HERE / "page.html").read_text(encoding="utf-8")
    parts = {"policy": _policy(style, script), "style": style, "script": script, "version": __version__}
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], page)


def _policy(style: str, script: str) -> str:
    """All that the page may do: run this script and look like this. No address is among it."""
    rules = {"default-src": "'none'", "script-src": _hash(script), "style-src": _hash(style), "base-uri": "'none'"}
    return "; ".join(f"{name} {value}" for name, value in (rules | {"form-action": "'none'"}).items())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _style() -> str:
    return "".join((PACKAGE / name).read_text(encoding="utf-8") for name in STYLES)


def _script() -> str:
    """All modules, each after those that it imports."""
    order: list[str] = []
    _visit(ENTRY, order, ())
    return "const modules = {};\n" + "\n".join(_as_function(name) for name in order)


def _visit(name: str, order: list[str], path: tuple[str, ...]) -> None:
    if name in path:
        raise ValueError(f"modules import each other: {' '.join((*path, name))}")
    if name in order:
        return
    for _, imported in _IMPORT.findall(_source(name)):
        _visit(imported, order, (*path, name))
    order.append(name)


def _as_function(name: str) -> str:
    """A module as a function that is called once: its imports are taken from earlier modules, its exports are returned."""
    source = _source(name)
    exported = ", ".join(found[1] for found in _EXPORT.findall(source))
    body = _EXPORT.sub(r"\1", _IMPORT.sub(r'const \1 = modules["\2"];', source))
    return f'modules["{name}"] = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n'


def _source(name: str) -> str:
    return (HERE / "script" / name).read_text(encoding="utf-8")
