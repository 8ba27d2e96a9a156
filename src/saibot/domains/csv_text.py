"""A key domain as CSV, the form in which it goes over the wire: first column the keys, further columns their parents."""

from __future__ import annotations

import csv
import io

from saibot.domains.domain import KeyDomain
from saibot.errors import InvalidDomain


def domain_to_csv(domain: KeyDomain) -> bytes:
    """The same that `--domain FILE` reads."""
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["key", *(name for name, _ in domain.parents)])
    lines.writerows(zip(domain.values, *(column for _, column in domain.parents), strict=True))
    return text.getvalue().encode()


def domain_from_csv(content: bytes, *, id: str, version: int) -> KeyDomain:
    """The header line names the columns; anything but a sound file raises InvalidDomain."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidDomain("the key domain is not CSV in UTF-8.") from None
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        names = next(lines, [])
        rows = [row for row in lines if row]
    except csv.Error:
        raise InvalidDomain("the key domain is no sound CSV file.") from None
    if not names:
        raise InvalidDomain("the key domain has no column.")
    if any(len(row) != len(names) for row in rows):
        raise InvalidDomain("a line of the key domain does not have as many fields as the header line.")
    if len(set(names)) < len(names) or not all(name.strip() for name in names):
        raise InvalidDomain("a column of the key domain has no name, or two have the same.")
    keys, *parents = (list(column) for column in zip(*rows, strict=True)) if rows else ([] for _ in names)
    return KeyDomain.of(id, keys, version=version, parents=dict(zip(names[1:], parents, strict=True)))
