"""A key domain as CSV, the form in which it goes over the wire: first column the keys, further columns their parents."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import TextIO

from saibot.domains.domain import KeyDomain
from saibot.errors import InvalidDomain

LONGEST_LINE = 1 << 20  # letters
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def is_like_formula(text: str) -> bool:
    """Whether a spreadsheet may run it. Some leave out what nobody sees before they look at how it begins."""
    seen = next((letter for letter in text if letter.isprintable() and not letter.isspace()), "x")
    return seen in FORMULA or text.lstrip(" ").startswith(FORMULA)


def domain_to_csv(domain: KeyDomain) -> bytes:
    """The same that `--domain FILE` reads."""
    text = io.StringIO(newline="")
    write_csv(domain, text)
    return text.getvalue().encode()


def write_csv(domain: KeyDomain, file: TextIO) -> None:
    """The same into a file that is open."""
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(["key", *(name for name, _ in domain.parents)])
    lines.writerows(zip(domain.values, *(column for _, column in domain.parents), strict=True))


def domain_from_csv(content: bytes, *, id: str, version: int, shape: tuple[int, int] | None = None) -> KeyDomain:
    """The header line names the columns; anything but a sound file raises InvalidDomain.

    With a `shape`, lines and columns, one that has more is refused before they are in memory.
    """
    text = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", newline="")
    return domain_from_lines(text, id=id, version=version, shape=shape)


def domain_from_lines(
    text: Iterable[str],
    *,
    id: str,
    version: int,
    from_strangers: bool = False,
    shape: tuple[int, int] | None = None,
) -> KeyDomain:
    """The same, line by line: nothing but the columns is in memory, and of parents each text once.

    Whoever downloads what came `from_strangers` may open it in a spreadsheet, which runs a head that begins like a formula:
    that is refused. Keys stay what they are, for tables are joined by them.
    """
    try:
        names, columns = _columns(csv.reader(text if shape is None else _short(text), strict=True), shape)
        if from_strangers and any(map(is_like_formula, names)):
            raise InvalidDomain(
                "a column of the key domain has a name that spreadsheets take for a formula.",
                hint="Names of columns begin with none of = + - @, with no tab and with no line end.",
            )
    except csv.Error:
        raise InvalidDomain("the key domain is no sound CSV file.") from None
    except UnicodeDecodeError:
        raise InvalidDomain("the key domain is not CSV in UTF-8.") from None
    keys, *parents = columns
    return KeyDomain.of(id, keys, version=version, parents=dict(zip(names[1:], parents, strict=True)))


def _short(lines: Iterable[str]) -> Iterator[str]:
    """No line without end: a letter and a comma become ten times as much in memory."""
    for line in lines:
        if len(line) > LONGEST_LINE:
            raise InvalidDomain("a line of the key domain is too long.")
        yield line


def _columns(rows: Iterable[list[str]], shape: tuple[int, int] | None) -> tuple[list[str], list[list[str]]]:
    lines = iter(rows)
    names = next(lines, [])
    if not names:
        raise InvalidDomain("the key domain has no column.")
    if shape is not None and len(names) > shape[1]:
        raise InvalidDomain("the key domain has more columns than was said.")
    if len(set(names)) < len(names) or not all(name.strip() for name in names):
        raise InvalidDomain("a column of the key domain has no name, or two have the same.")
    keys: list[str] = []
    parents: list[list[str]] = [[] for _ in names[1:]]
    seen: dict[str, str] = {}
    for row in lines:
        if not row:
            continue
        if shape is not None and len(keys) == shape[0]:
            raise InvalidDomain("the key domain has more keys than was said.")
        if len(row) != len(names):
            raise InvalidDomain("a line of the key domain does not have as many fields as the header line.")
        keys.append(row[0])
        for column, text in zip(parents, row[1:], strict=True):
            column.append(seen.setdefault(text, text))
    return names, [keys, *parents]
