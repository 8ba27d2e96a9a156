"""Stored sketches, read to be shown to people: large ones some features at a time, for all of one would take the room of
everybody else.

What a header says can be read of any sketch. Whoever wants all of a large one downloads it.
"""

from __future__ import annotations

import math
from contextlib import closing
from typing import Any

import pyarrow as pa

from saibot.platform.errors import NotFound, Unusable
from saibot.platform.storage.file_names import sketch_file_name
from saibot.platform.storage.files import FileStore
from saibot.safe_arrow import mapped
from saibot.sketch import Header, Sketch, read_header, read_part, read_sketch
from saibot.sketch.file import read_document

SHOWN_BYTES = 8 << 20
QUICK_BYTES = 1 << 20  # beyond, sketches are read one at a time
SUMMED_BYTES = 32 << 20  # up to here all numbers are read where sums of them are all that is wanted
MOST_KEYS = 1 << 18  # texts of keys, of all parts, that are shown: each takes a few hundred bytes


class TooLargeToShow(Unusable):
    def __init__(self, what: str) -> None:
        super().__init__(
            f"this sketch has more than {what}: the platform does not compute with it.",
            hint="Download it: `saibot inspect` and `saibot search --local` work with sketches of any size.",
            code="too_large_to_show",
        )


def shown_sketch(files: FileStore, digest: str) -> Sketch:
    """Raises NotFound, or TooLargeToShow."""
    content = _content(files, digest)
    if content.size > SHOWN_BYTES:
        raise _too_large(SHOWN_BYTES)
    return read_sketch(content)


def shown_feature(files: FileStore, digest: str, feature: str | None) -> Sketch:
    """A stored sketch, of a large one what it holds of one feature, which is the first where none has this name.

    Raises NotFound, or TooLargeToShow.
    """
    content = _content(files, digest)
    if content.size <= SHOWN_BYTES:
        return read_sketch(content)
    header = read_header(content)
    parts = header.key.parts if header.key else ()
    if len(parts) * math.prod(part.size for part in parts) > MOST_KEYS:
        raise TooLargeToShow(f"{MOST_KEYS:,} keys")
    names = [one.name for one in header.features]
    return read_part(content, header, {feature if feature in names else names[0]})


def summed_sketch(files: FileStore, digest: str) -> Sketch:
    """A stored sketch to add up, without products of more than two features. Raises NotFound, or TooLargeToShow."""
    content = _content(files, digest)
    if content.size > SUMMED_BYTES:
        raise _too_large(SUMMED_BYTES)
    if content.size <= SHOWN_BYTES:
        return read_sketch(content)
    header = read_header(content)
    return read_part(content, header, {feature.name for feature in header.features})


def is_whole(files: FileStore, digest: str) -> bool:
    """Whether a stored sketch is shown with all its features at once. Raises NotFound."""
    return bool(_content(files, digest).size <= SHOWN_BYTES)


def _too_large(most: int) -> TooLargeToShow:
    return TooLargeToShow(f"{most >> 20} MiB")


def stored_header(files: FileStore, digest: str) -> Header:
    """What a sketch says about itself, without its numbers by key. Raises NotFound."""
    return read_header(_content(files, digest))


def stored_budget(files: FileStore, digest: str) -> dict[str, str]:
    """What a sketch cost, read as fast as can be: a page may add up thousands."""
    budget: dict[str, Any] = read_document(_content(files, digest))["budget"]
    return {name: str(text) for name, text in budget.items()}


def _content(files: FileStore, digest: str) -> pa.Buffer:
    name = sketch_file_name(digest)
    place = files.place(name)
    try:
        if place is not None:
            return mapped(str(place))
        with closing(files.open(name)) as file:
            return pa.py_buffer(file.read())
    except FileNotFoundError:
        raise NotFound("there is no sketch with this digest.", hint="It has just been withdrawn.") from None
