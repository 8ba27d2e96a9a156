"""The key columns of a requester's table, and where each of its rows stands in the public domains they are looked up in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from saibot.client.tables import key_codes
from saibot.search.key_maps import RequestKey
from saibot.search.units import KeyColumn
from saibot.sketch import KeyDomain

WHOLE = 1_000_000  # keys of a domain that is taken whole


def places_of(texts: Sequence[str], domain: KeyDomain) -> np.ndarray:
    """The place of each key text in a domain; the domain's size for one outside. Of a time, a domain of days has the day."""
    days = domain.id.startswith("dates:")
    places = domain.places([_day(text) for text in texts] if days else texts)
    return np.where(places < 0, len(domain), places)


def request_key(keys: Sequence[KeyColumn], tables: Sequence[pa.Table]) -> tuple[RequestKey | None, list[np.ndarray]]:
    """The observed combinations of keys over all tables together, and the number of each row's combination.

    Keys that stand at the same places in all domains are one: nothing that can be joined tells them apart. A single key is
    given with its whole domain, in order, so that tables with the same key can be added row by row.
    """
    lengths = [table.num_rows for table in tables]
    if not keys:
        return None, [np.zeros(length, np.int64) for length in lengths]
    combined = np.zeros(sum(lengths), np.int64)
    columns: list[np.ndarray] = []  # per part, the place of each row
    for key in keys:
        codes, texts = _codes(key.column, tables)
        numbers: dict[tuple[int, ...], int] = {}
        spots = np.column_stack([places_of(texts, domain) for domain in key.domains])
        merged = np.array([numbers.setdefault(tuple(row), len(numbers)) for row in spots.tolist()], np.int64)
        combined = combined * len(numbers) + merged[codes]
        _, combined = np.unique(combined, return_inverse=True)  # dense again, so that codes never outgrow 64 bits
        columns += [spots[codes, i] for i in range(len(key.domains))]
    _, first = np.unique(combined, return_index=True)
    parts = tuple((key.name, domain) for key in keys for domain in key.domains)
    if len(parts) == 1 and len(parts[0][1]) <= WHOLE:
        return RequestKey.product(parts), np.split(columns[0], np.cumsum(lengths)[:-1])
    places = np.column_stack([column[first] for column in columns]) if len(first) else np.zeros((0, len(parts)), np.int64)
    return RequestKey(parts, places), np.split(combined, np.cumsum(lengths)[:-1])


def _codes(column: str, tables: Sequence[pa.Table]) -> tuple[np.ndarray, list[str]]:
    """One numbering of a column's keys over several tables."""
    numbers: dict[str, int] = {}
    found = []
    for table in tables:
        codes, texts = key_codes(table, column)
        renumbered = np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int64)
        found.append(renumbered[codes])
    return np.concatenate(found), list(numbers)


def _day(text: str) -> str:
    return text[:10] if len(text) > 10 and text[10] in " T" else text
