"""A dataset as it is shown: everything from the sketch's header, which is public or was paid for."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from saibot.sketch import Header, Sketch

LONGEST_TERM = 100


def dataset_document(
    sketch: Sketch,
    *,
    id: str,
    provider: str,
    visibility: str,
    version: int,
    bytes: int,
    published: str,
    expires: str | None,
) -> dict[str, Any]:
    header = sketch.header
    request = sketch.plan.request
    return {
        "id": id,
        "provider": provider,
        "name": header.dataset.name,
        "title": header.dataset.title,
        "description": header.dataset.description,
        "individual": header.dataset.individual,
        "key": _key(header),
        "features": [
            {
                "name": feature.name,
                "kind": feature.kind,
                "unit": feature.unit,
                "lower": feature.lower,
                "upper": feature.upper,
            }
            for feature in header.features
        ],
        "rows": header.rows,
        "budget": {"epsilon": header.budget["epsilon"], "delta": header.budget["delta"]},
        "mechanism": request.mechanism,
        "layout": request.layout,
        "neighbours": str(header.neighbours),
        "visibility": visibility,
        "version": version,
        "digest": sketch.digest,
        "bytes": bytes,
        "published": published,
        "expires": expires,
    }


def _key(header: Header) -> dict[str, Any] | None:
    key = header.key
    if key is None:
        return None
    return {
        "name": key.name,
        "parts": [
            {
                "name": part.name,
                "domain": part.domain,
                "version": part.version,
                "size": part.size,
                "digest": part.digest,
                "keys_digest": part.keys_digest,
            }
            for part in key.parts
        ],
        "levels": list(key.levels),
    }


# ------------------------------------------------------------------------------------------- search terms


def terms_of(header: Header, provider: str) -> set[str]:
    """What a dataset is found by: `w:` words of its name, title, features, domains and provider; `f:`, `d:`, `p:` whole.

    `u:` is a feature's name as unions are matched by it, letters and digits only; `k:` is the domain
    that opens the coarser levels of its key.
    """
    features = [feature.name for feature in header.features]
    domains = [part.domain for part in header.key.parts] if header.key else []
    texts = [header.dataset.name, header.dataset.title, provider, *features, *domains]
    found = {f"w:{word}" for text in texts for word in words_of(text)}
    found |= {f"f:{plain(name)}" for name in features}
    found |= {f"u:{letters_of(name)}" for name in features}
    found |= {f"d:{plain(name)}" for name in domains}
    if header.key is not None and header.key.levels:
        found.add(f"k:{header.key.parts[0].digest}")
    return found | {f"p:{plain(provider)}"}


def words_of(text: str) -> list[str]:
    """Words in their plain form; `arr_delay` is `arr` and `delay`."""
    return [word[:LONGEST_TERM] for word in re.split(r"[^\w]|_", plain(text)) if word]


def plain(text: str) -> str:
    """Without case, and without the many ways to write one letter."""
    return unicodedata.normalize("NFKC", text).casefold().strip()[: 2 * LONGEST_TERM]


def letters_of(name: str) -> str:
    """Features that read the same add: `Arr Delay` and `arr_delay`."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(letter for letter in folded if letter.isalnum())[: 2 * LONGEST_TERM]
