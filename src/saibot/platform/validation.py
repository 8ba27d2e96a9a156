"""Which bytes are accepted as a sketch: those that a strict reader can read, that keep their promises, and nothing else.

What is stored is our own writing of what was read, so nothing that the reader did not understand is passed on.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from saibot.errors import InvalidInput, InvalidSketch
from saibot.estimate.profile import profile
from saibot.platform.errors import Unusable
from saibot.search.packed_rows import plain_rows
from saibot.sketch import Header, Sketch, read_sketch, write_sketch

MAGIC = b"ARROW1"
# Embeddings, overrides and isolates; the marks U+200E and U+200F turn nothing around and stay.
BIDIRECTIONAL = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
PRIVATIZE = "Only sketches are accepted, never tables: `saibot privatize TABLE` makes one on your own machine."


def accepted_sketch(content: bytes, *, accept_unsafe: bool) -> tuple[Sketch, bytes]:
    """The sketch and the bytes to keep; anything else is refused with the reason."""
    if not content.startswith(MAGIC):
        raise Unusable("this is not a sketch file.", hint=PRIVATIZE, code="invalid_sketch")
    try:
        sketch = read_sketch(content)
    except InvalidSketch as problem:
        raise Unusable(problem.message, hint=problem.hint or _READ_HINT, code="invalid_sketch") from None
    header = sketch.header
    if any(has_control_characters(text) for text in _texts(header)):
        raise Unusable(
            "a name or text in the sketch's header holds control characters.", hint="Remove them from the dataset card."
        )
    if any(has_control_characters(str(key)) for level in sketch.levels for column in level.keys for key in column):
        raise Unusable("a key of the sketch holds control characters.", hint="Remove them from the key domain.")
    if not accept_unsafe:
        _check_private(header)
    _check_use(sketch)
    return sketch, write_sketch(sketch)


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


def has_control_characters(text: str) -> bool:
    """Characters that command a terminal, or that make a text read as another than it is."""
    return not text.isprintable() and any(
        unicodedata.category(letter) in ("Cc", "Cs") or letter in BIDIRECTIONAL for letter in text if letter != "\t"
    )
