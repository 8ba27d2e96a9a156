"""One name, one meaning: a reader who meets a class or a module need not ask which one is meant.

Where a name stands for several things on purpose, the reason is given here.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = [path for folder in ("src/saibot", "research") for path in sorted((ROOT / folder).rglob("*.py"))]

HEADER = "a sketch's header is a file format with rules of its own; the catalogue shows what it says"
CLASSES = {
    "Platform": "the SDK's name for a platform is what the platform itself is called; neither can import the other",
    "NotAllowed": "the client raises what the platform raised, under the same name",
    "NotFound": "the client raises what the platform raised, under the same name",
    "Budget": HEADER,
    "Dataset": HEADER,
    "Feature": HEADER,
    "Key": HEADER,
    "KeyPart": HEADER,
}


def test_no_class_name_is_defined_twice() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    twice = {name: places for name, places in found.items() if len(places) > 1 and name not in CLASSES}
    assert twice == {}, "give each of these a name that says what it is, or a reason above"
