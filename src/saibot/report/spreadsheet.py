"""Tables for spreadsheets: text of strangers never becomes a formula there."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any


def csv_text(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Lines under a line of heads. Names come from strangers, so heads and text cells are made harmless."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([harmless(head) for head in heads])
    writer.writerows([harmless(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return out.getvalue()


def harmless(text: str) -> str:
    """Spreadsheets run cells that begin like a formula, also behind what nobody sees: such cells become plain text."""
    seen = next((letter for letter in text if letter.isprintable() and not letter.isspace()), "x")
    return f"'{text}" if seen in "=+-@" or text.lstrip(" ")[:1] in ("\t", "\r", "\n") else text


def safe_file_name(words: str, suffix: str) -> str:
    """A name for downloads, of characters that every system takes."""
    return (
        "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "-" for letter in words)[:80]
        + suffix
    )
