"""Stored sketches, read to be shown to people: large ones not at all, for that would take the room of everybody else.

What a header says can be read of any sketch. Whoever wants all of a large one downloads it.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pyarrow as pa

from saibot.platform.errors import NotFound, Unusable
from saibot.platform.publishing import file_name
from saibot.platform.storage.files import FileStore
from saibot.safe_arrow import mapped
from saibot.sketch import Header, Sketch, read_header, read_sketch
from saibot.sketch.file import read_document

SHOWN_BYTES = 8 << 20
QUICK_BYTES = 1 << 20  # beyond, sketches are read one at a time


class TooLargeToShow(Unusable):
    def __init__(self) -> None:
        super().__init__(
            f"this sketch has more than {SHOWN_BYTES >> 20} MiB: the platform does not compute with it.",
            hint="Download it: `saibot inspect` and `saibot search --local` work with sketches of any size.",
            code="too_large_to_show",
        )


def shown_sketch(files: FileStore, digest: str) -> Sketch:
    """Raises NotFound, or TooLargeToShow."""
    content = _content(files, digest)
    if content.size > SHOWN_BYTES:
        raise TooLargeToShow()
    return read_sketch(content)


def stored_header(files: FileStore, digest: str) -> Header:
    """What a sketch says about itself, without its numbers by key. Raises NotFound."""
    return read_header(_content(files, digest))


def stored_budget(files: FileStore, digest: str) -> dict[str, str]:
    """What a sketch cost, read as fast as can be: a page may add up thousands."""
    budget: dict[str, Any] = read_document(_content(files, digest))["budget"]
    return {name: str(text) for name, text in budget.items()}


def _content(files: FileStore, digest: str) -> pa.Buffer:
    name = file_name(digest)
    place = files.place(name)
    try:
        if place is not None:
            return mapped(str(place))
        with closing(files.open(name)) as file:
            return pa.py_buffer(file.read())
    except FileNotFoundError:
        raise NotFound("there is no sketch with this digest.", hint="It has just been withdrawn.") from None
