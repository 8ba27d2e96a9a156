"""Flags of the options of a search: their defaults, limits and words are those of `saibot.wire.SearchOptions`."""

from __future__ import annotations

from typing import Any, get_args

import typer
from annotated_types import Ge

from saibot.search.rankings import RANKINGS
from saibot.wire import SearchOptions
from saibot.wire.rankings import ranking_choices

DEFAULT = SearchOptions()


def option_of(name: str, flag: str | None = None) -> Any:
    """The flag of one option. `flag` is given for a switch that has no opposite, or that goes by another name."""
    field = SearchOptions.model_fields[name]
    names = () if flag is None else (flag,)
    choices = [*RANKINGS] if name == "rank" else [one for one in get_args(field.annotation) if isinstance(one, str)]
    if not choices:
        least: Any = next((one.ge for one in field.metadata if isinstance(one, Ge)), None)
        return typer.Option(*names, help=field.description, min=least)
    told = ranking_choices() if name == "rank" else field.description
    return typer.Option(*names, help=told, metavar="|".join(choices), autocompletion=lambda: choices)
