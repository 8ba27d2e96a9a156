"""Characters that command a terminal, or that make a text read as another than it is."""

from __future__ import annotations

import unicodedata

# Embeddings, overrides and isolates; the marks U+200E and U+200F turn nothing around and stay.
BIDIRECTIONAL = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def has_control_characters(text: str) -> bool:
    return not text.isprintable() and any(
        unicodedata.category(letter) in ("Cc", "Cs") or letter in BIDIRECTIONAL for letter in text if letter != "\t"
    )
