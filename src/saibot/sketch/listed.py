"""The keys that a sketch itself lists, as a key domain: what is known of it where nobody else knows it."""

from __future__ import annotations

from saibot.domains.domain import OTHER, KeyDomain
from saibot.errors import InvalidSketch
from saibot.sketch.sketch import Sketch


def listed_domain(sketch: Sketch, number: int) -> KeyDomain:
    """The domain of one part of a sketch's key, without coarser levels."""
    assert sketch.header.key is not None
    part = sketch.header.key.parts[number]
    values = tuple(key for key in dict.fromkeys(map(str, sketch.levels[0].keys[number])) if key != OTHER)
    domain = KeyDomain(part.domain, part.version, values)
    if domain.keys_digest != part.keys_digest:
        raise InvalidSketch(f"the keys of {sketch.header.dataset.name!r} are not those of its key domain.")
    return domain
