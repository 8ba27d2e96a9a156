"""What a dataset is found by."""

from __future__ import annotations

import re
import unicodedata

from saibot.sketch import Header
from saibot.wire import About

LONGEST_TERM = 100


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


def terms_of_said(said: About) -> set[str]:
    """What is added by what its provider says beside the sketch: `t:` tags whole; `w:` words of tags and licence."""
    found = {f"w:{word}" for text in (*said.tags, said.licence) for word in words_of(text)}
    return found | {f"t:{plain(tag)}" for tag in said.tags}


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
