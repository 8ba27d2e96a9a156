"""What a request's numbers mean to the one who asks: units, columns of raw rows, key columns and their public domains.

The search itself runs on scaled moments and needs none of this; the document of its result is written in these terms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from saibot.sketch import KeyDomain
from saibot.wire.result import OwnColumn


@dataclass(frozen=True)
class Units:
    """`original = offset + scale * scaled`."""

    offset: float
    scale: float


@dataclass(frozen=True)
class KeyColumn:
    """A key of the request: its column, and one or more public domains that its values are looked up in.

    Providers may list the same keys in domains of their own (another range of days, say); a local request can be joined
    with all of them, because it holds the keys themselves.
    """

    name: str
    column: str
    domains: tuple[KeyDomain, ...]


@dataclass(frozen=True)
class Terms:
    """How a request's numbers translate back; `notes` is what its owner should know about it."""

    units: Mapping[str, Units]  # of the target and of every own feature
    features: tuple[OwnColumn, ...]  # without the target
    target_column: str
    keys: tuple[KeyColumn, ...] = ()
    notes: tuple[str, ...] = ()


def new_name(wanted: str, taken: set[str]) -> str:
    """The wanted name, told apart from those there are."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}.{number}", number + 1
    taken.add(name)
    return name
