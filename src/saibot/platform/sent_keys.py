"""A key domain as a stranger sent it: CSV whose lines are counted before one of them is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import BinaryIO

from saibot.domains.csv_text import domain_from_lines
from saibot.errors import InvalidDomain
from saibot.platform.control_characters import has_control_characters
from saibot.sketch import KeyDomain

MAX_LEVELS = 20
LONGEST_KEY = 200  # letters, of a parent, too
CHUNK = 1 << 16


def check_size(content: bytes | Path, *, most: int) -> None:
    """Raise where there are more lines than a domain may have keys."""
    with _opened(content) as file:
        parts = iter(lambda: file.read(CHUNK), b"")
        lines = sum(part.count(b"\n") + part.count(b"\r") - part.count(b"\r\n") for part in parts)
    if lines > most + 1:
        raise _too_many(most)


def read_csv(content: bytes | Path, *, id: str, version: int, most: int) -> KeyDomain:
    """A domain of few levels, and without characters that command a terminal."""
    with _opened(content) as file:
        text = TextIOWrapper(file, "utf-8-sig", newline="")
        domain = domain_from_lines(_harmless(text), id=id, version=version, from_strangers=True)
    if len(domain.parents) > MAX_LEVELS:
        raise InvalidDomain(f"a key domain has a key column and at most {MAX_LEVELS} columns of parents.")
    if len(domain) > most:
        raise _too_many(most)
    if any(len(text) > LONGEST_KEY for column in (domain.values, *(keys for _, keys in domain.parents)) for text in column):
        raise InvalidDomain(
            f"a key, or a parent of one, has more than {LONGEST_KEY} letters.",
            hint="Keys are codes or names: give long texts a code each, in the list and in the table.",
        )
    return domain


def _harmless(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if has_control_characters(line.rstrip("\r\n")):
            raise InvalidDomain("the key domain holds control characters.")
        yield line


def _opened(content: bytes | Path) -> BinaryIO:
    return content.open("rb") if isinstance(content, Path) else BytesIO(content)


def _too_many(most: int) -> InvalidDomain:
    return InvalidDomain(
        f"a key domain may have {most:,} keys here.", hint="Use coarser keys, or ask the platform's admin for more."
    )
