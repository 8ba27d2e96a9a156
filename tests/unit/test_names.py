"""One name, one meaning: a reader who meets a class or a module need not ask which one is meant.

Where a name stands for several things on purpose, the reason is given here.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = [path for folder in ("src/saibot", "research") for path in sorted((ROOT / folder).rglob("*.py"))]

CLASSES = {
    "Platform": "the SDK's name for a platform is what the platform itself is called; neither can import the other",
    "NotAllowed": "the client raises what the platform raised, under the same name",
    "NotFound": "the client raises what the platform raised, under the same name",
}

FACES = {
    "saibot/cli": "a command is called like what it runs",
    "saibot/platform/api": "routes are called like what they answer for",
    "saibot/platform/pages": "pages are called like what they show",
    "saibot/report": "what is shown is called like what it shows",
    "saibot/wire": "shapes are called like what they describe",
    "saibot/audit/promises": "a check is called like what it holds to its promise",
    "research": "an experiment is called like what it measures",
}
MODULES = {
    "cells": "what a cell means, and the audit's cells that try to mean something else",
    "clock": "hours and weekdays as keys, and what time it is",
    "domains": "key domains as the SDK finds them, and as a platform registers them",
    "engine": "what a table is aggregated with, and what a search is swept with",
    "errors": "every room has its own tree of errors",
    "file": "the file of a sketch, and of a key domain",
    "learning": "the estimator of shared factors, and learning them from a corpus",
    "many_to_many": "the estimator, and the search that uses it",
    "model": "the SDK's model, and the one that the demo trains",
    "moments": "the algebra, and moments from a sketch",
    "packing": "a folder of sketches, and a platform's shards: the same step on two sides that cannot import each other",
    "registry": "of key domains, and of mechanisms",
    "report": "what the audit writes, and what the demo writes",
    "tables": "tables of rows, and tables of the platform's database",
    "unions": "which tables can be added, and adding them",
    "values": "values of a chosen column for a requester's rows, and values of keys with shared factors",
}


def places_of_classes() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def places_of_modules() -> dict[str, list[str]]:
    """Modules of the rooms themselves; whatever presents, checks or measures a room may be called like it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        place = path.relative_to(ROOT).as_posix().removeprefix("src/")
        if not path.stem.startswith("__") and not place.startswith(tuple(f"{face}/" for face in FACES)):
            found[path.stem].append(place)
    return found


@pytest.mark.parametrize("places, reasons", [(places_of_classes, CLASSES), (places_of_modules, MODULES)])
def test_no_name_has_two_meanings_without_a_reason(
    places: Callable[[], dict[str, list[str]]], reasons: dict[str, str]
) -> None:
    twice = {name: found for name, found in places().items() if len(found) > 1}
    unexplained = {name: found for name, found in twice.items() if name not in reasons}
    assert unexplained == {}, "give each of these a name that says what it is, or a reason above"
    assert reasons.keys() <= twice.keys(), "these reasons explain nothing any more"
