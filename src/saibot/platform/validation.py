"""Which bytes are accepted as a sketch: those that a strict reader can read, that keep their promises, and nothing else.

What is stored is our own writing of what was read, so nothing that the reader did not understand is passed on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from saibot.errors import InvalidInput, InvalidSketch
from saibot.estimate.profile import profile
from saibot.platform.control_characters import has_control_characters
from saibot.platform.errors import Unusable
from saibot.platform.reading import LARGE, on_disk, read_elsewhere, size_of
from saibot.search.packed_rows import plain_rows
from saibot.sketch import Header, LevelTable, Sketch, read_sketch, write_sketch
from saibot.sketch.sketch import text_buffers

MAGIC = b"ARROW1"
TOGETHER = 10_000  # keys
PROFILED_FEATURES = 100
PRIVATIZE = "Only sketches are accepted, never tables: `saibot privatize TABLE` makes one on your own machine."


def accepted_sketch(
    content: bytes | Path, *, accept_unsafe: bool, most_keys: int | None = None
) -> tuple[Sketch, bytes | memoryview]:
    """The sketch and the bytes to keep; anything else is refused with the reason. A large one is read elsewhere."""
    sketch, stored = _accepted(content, accept_unsafe=accept_unsafe)
    keys = len(sketch.levels[0]) - 1 if sketch.levels else 0  # without the one that stands for all others
    if most_keys is not None and keys > most_keys:
        raise Unusable(
            f"the sketch has {keys:,} keys, and this platform takes {most_keys:,}.",
            hint="Release it by a coarser key, search at home with `--local`, or ask the platform's admin for more.",
            code="too_many_keys",
        )
    return sketch, stored


def _accepted(content: bytes | Path, *, accept_unsafe: bool) -> tuple[Sketch, bytes | memoryview]:
    if size_of(content) <= LARGE:
        sketch = checked_sketch(content.read_bytes() if isinstance(content, Path) else content, accept_unsafe=accept_unsafe)
        return sketch, write_sketch(sketch)
    with on_disk(content) as source:
        written, _ = read_elsewhere(source, "sketch", accept_unsafe=accept_unsafe)
    return read_sketch(written), memoryview(written)


def checked_sketch(content: bytes | pa.Buffer, *, accept_unsafe: bool) -> Sketch:
    """The sketch that these bytes are, or the reason why they are none that is accepted."""
    if bytes(memoryview(content)[: len(MAGIC)]) != MAGIC:
        raise not_a_sketch()
    try:
        sketch = read_sketch(content)
    except InvalidSketch as problem:
        raise Unusable(problem.message, hint=problem.hint or _READ_HINT, code="invalid_sketch") from None
    header = sketch.header
    if any(has_control_characters(text) for text in _texts(header)):
        raise Unusable(
            "a name or text in the sketch's header holds control characters.", hint="Remove them from the dataset card."
        )
    if any(has_control_characters(letters) for level in sketch.levels for letters in _letters(level)):
        raise Unusable("a key of the sketch holds control characters.", hint="Remove them from the key domain.")
    if not accept_unsafe:
        _check_private(header)
    _check_use(sketch)
    return sketch


def not_a_sketch() -> Unusable:
    return Unusable("this is not a sketch file.", hint=PRIVATIZE, code="invalid_sketch")


_READ_HINT = "Send the .saibot file as `saibot privatize` wrote it, unchanged; `saibot inspect FILE` checks it."


def _check_private(header: Header) -> None:
    if header.simulation:
        raise Unusable(
            "the sketch has simulated noise, so it protects nobody.",
            hint="`saibot privatize` draws real noise; simulated sketches are for experiments.",
            code="not_private",
        )
    if header.preparation.kind == "nonprivate":
        raise Unusable(
            "the sketch was prepared from its rows without paying for it, so it is not private.",
            hint="Give bounds in the card, or buy them with a share of the budget, instead of `--prepare paper`.",
            code="not_private",
        )
    if header.preparation.kind == "tuned":
        raise Unusable(
            "the sketch's card was changed after its rows were looked at, so it is not private.",
            hint="Release the card that was looked at, or buy what was changed: bounds, or the coverage of the key.",
            code="not_private",
        )


def _check_use(sketch: Sketch) -> None:
    """Its numbers as they will be used: profiled, and packed for searches. Limits keep them finite; this makes sure."""
    try:
        with suppress(InvalidInput):  # a sketch that can only be added has nothing to be profiled, or to be looked up
            if len(sketch.features) <= PROFILED_FEATURES:
                json.dumps(profile(sketch, draws=1).to_json(), allow_nan=False)
        if sketch.levels:
            plain_rows(sketch, None)
    except (InvalidSketch, ArithmeticError, ValueError):
        raise Unusable(
            "the sketch's numbers are sound one by one, but nothing can be computed with them.",
            hint=_READ_HINT,
            code="invalid_sketch",
        ) from None


def _texts(header: Header) -> Iterator[str]:
    """All of them, wherever they are; a description alone may have several lines."""
    document = header.model_dump(mode="json", exclude={"global_blocks"})
    document["dataset"]["description"] = header.dataset.description.replace("\n", " ")
    yield from _strings(document)


def _letters(level: LevelTable) -> Iterator[str]:
    """Of all keys, many at a time: there may be millions of them."""
    for column in level.columns:
        for first in range(0, len(column), TOGETHER):
            yield bytes(text_buffers(column.slice(first, TOGETHER))[1]).decode()


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield str(name)
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)
