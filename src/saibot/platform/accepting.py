"""Which bytes are accepted as a sketch: those that a strict reader can read, that keep their promises, and nothing else.

What is stored is our own writing of what was read, so nothing that the reader did not understand is passed on.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from saibot.errors import InvalidSketch
from saibot.platform.errors import Unusable
from saibot.sketch import Header, Sketch, read_sketch, write_sketch

MAGIC = b"ARROW1"
MAX_FEATURES = 1000
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
    if len(header.features) > MAX_FEATURES:
        raise Unusable(f"the sketch has more than {MAX_FEATURES:,} features.", hint="Publish several smaller sketches.")
    if any(has_control_characters(text) for text in _texts(header)):
        raise Unusable(
            "a name or text in the sketch's header holds control characters.", hint="Remove them from the dataset card."
        )
    if not accept_unsafe:
        _check_private(header)
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


def _texts(header: Header) -> Iterator[str]:
    dataset = header.dataset
    yield from (dataset.name, dataset.title, dataset.individual, dataset.description.replace("\n", " "))
    for feature in header.features:
        yield from (feature.name, feature.unit, feature.column or "", feature.level or "")
    if header.key is not None:
        yield from (header.key.name, *header.key.levels)
        for part in header.key.parts:
            yield from (part.name, part.domain)


def has_control_characters(text: str) -> bool:
    return not text.isprintable() and any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text if letter != "\t")
