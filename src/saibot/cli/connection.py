"""How commands find their platform, and how they show what strangers wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from saibot.client import Dataset, Platform

PlatformOption = Annotated[
    str | None,
    typer.Option("--platform", metavar="ADDRESS", help="The platform. Default: SAIBOT_PLATFORM, or where you logged in."),
]


def open_connection(address: str | None, *, typed: bool = True) -> Platform:
    """The platform that was named, or the default one, with the token that belongs to it; see `saibot.client.connect`."""
    from saibot.client import connect

    return connect(address, typed=typed)


def at_home(url: str) -> bool:
    """Whether this address leads to this machine, from everywhere: nobody else can use it."""
    import httpx

    return httpx.URL(url).host in ("localhost", "127.0.0.1", "::1", "0.0.0.0")


def shown(text: object) -> str:
    """Text from a platform, for a table: no control characters. (Tables take no markup.)"""
    from saibot.report.format import plain_text

    return plain_text(text, most=200)


def describe_key(dataset: Dataset) -> str:
    """A dataset's key in a few words: its parts, and its coarser levels."""
    if dataset.key is None:
        return "–"
    levels = f" ({', '.join(dataset.key.levels)})" if dataset.key.levels else ""
    return ", ".join(part.name for part in dataset.key.parts) + levels


def day(moment: str | None) -> str:
    return "–" if not moment else moment[:10]
