"""Flags of the options of a search: their defaults, limits and words are those of `saibot.wire.SearchOptions`."""

from __future__ import annotations

from typing import Any

import typer

import saibot.search.rankings  # noqa: F401  (enters the rankings that the flag offers)
from saibot.wire import SearchOptions

DEFAULT = SearchOptions()


def option_of(name: str, flag: str | None = None) -> Any:
    """The flag of one option. `flag` is given for a switch that has no opposite, or that goes by another name."""
    fact = SearchOptions.model_json_schema()["properties"][name]
    names = () if flag is None else (flag,)
    if "enum" not in fact:
        return typer.Option(*names, help=fact["description"], min=fact.get("minimum"))
    metavar = "|".join(fact["enum"])
    return typer.Option(*names, help=fact["description"], metavar=metavar, autocompletion=lambda: [*fact["enum"]])
