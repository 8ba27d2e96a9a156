"""The blanks of a card template, and where a card still has them."""

from __future__ import annotations

import re

BOUNDS = "[FILL, FILL]"
LEVELS = '["FILL", "FILL"]'
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
# Within quotes only what the template writes: a level may well be called FILL.
_QUOTED = re.compile(r'\["FILL", "FILL"\]|"FILL\.csv"|\b(?:id|column|of|individual) = "FILL"')


def unfilled(text: str) -> list[int]:
    """The numbers of a card's lines that still have a blank. What is commented out needs no filling in."""
    return [number for number, line in enumerate(text.splitlines(), start=1) if _has_blank(line)]


def _has_blank(line: str) -> bool:
    """Quoted text comes off first: a # within it begins no comment."""
    bare = _TEXT.sub(lambda quoted: '"' * len(quoted[0]), line)
    said = line[: len(bare.partition("#")[0])]
    return bool(re.search(r"\bFILL\b", bare.partition("#")[0]) or _QUOTED.search(said))
