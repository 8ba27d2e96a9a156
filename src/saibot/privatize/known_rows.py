"""What a table's rows look like, as keyed hashes that stay in the ledger: to recognise individuals who have a cap already.

Hashed is what cells mean (`comparable_text`), so that another file format, order of rows, extra column or way of writing a
number changes nothing. A cell has a *place* that depends on it and the ledger's key alone; of a large table only rows in
which some cell has a low place are fetched, in one pass. They are hashed by a DuckDB of our own, whatever engine the rows
are in, so that samples of one table are the same from everywhere.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import ibis
import ibis.expr.types as ir

from saibot.privacy.ledger import Ledger
from saibot.privacy.samples import Kind, Known, Sample, looks_known
from saibot.privatize.cells import comparable_text, number_in
from saibot.privatize.engines import open_engine
from saibot.privatize.read import Source

_LOOKED_AT = 8192  # rows of a large table that are fetched for each column, about
_MOST = 500_000  # rows that are fetched at all: a column of few or very large numbers may have them all in one place
_PLACES, _DIGITS = 24, 9  # bits of a place, and hexadecimal digits of a hash behind it: 60 bits in all
_UNIQUE = 0.5  # of a column's cells must be different: what many rows share tells no rows


@dataclass(frozen=True)
class _Asked:
    """A sample to take: of which columns together, and by which of them a row is chosen."""

    kind: Kind
    columns: tuple[str, ...]
    chosen_by: str | None  # a column of numbers; None: the text of all columns


def samples_of(
    source: Source,
    ledger: Ledger,
    *,
    rows: int,
    numbers: Sequence[str],
    others: Sequence[str] = (),
    id: str | None = None,
) -> list[Sample]:
    """Samples of each column of numbers that tells rows apart, of rows (all columns together), and of individuals.

    `rows` is about how many there are. Rows are chosen by their first number, if there is any.
    """
    secret = ledger.secret("known rows")
    together = tuple(dict.fromkeys([*numbers, *others]))
    asked = [_Asked("column", (name,), name) for name in dict.fromkeys(numbers)]
    asked += [_Asked("row", together, next(iter(numbers), None))] if len(together) > 1 else []
    asked += [_Asked("individual", (id,), None)] if id else []
    if not asked:
        return []
    chosen = source.table.select(*dict.fromkeys([*together, *([id] if id else [])]))
    part = min(_LOOKED_AT / max(rows, 1), 1.0)
    if part < 1:
        low = {(one.chosen_by or one.columns): (_place(chosen, one, secret) < part).fill_null(False) for one in asked}
        chosen = chosen.filter(reduce(operator.or_, low.values())).limit(_MOST)
    fetched = Source(ibis.memtable(source.fetch(chosen)), open_engine(), None)
    found = []
    for one in asked:
        hashes = _hashes(fetched, one, secret, part)
        if hashes and (one.kind != "column" or len(hashes) >= _UNIQUE * sum(hashes.values())):
            below = int(part * (1 << _PLACES)) << 4 * _DIGITS  # those in the last place may not be all there
            name = "" if one.kind == "row" else one.columns[0]
            found.append(Sample.of(one.kind, name, (h for h in hashes if h < below), below=below))
    return found


def resembling(samples: Sequence[Sample], known: Sequence[Known]) -> list[str]:
    """One sentence for each account or split whose rows these look like."""
    sentences = []
    for old, sample in looks_known(samples, known):
        what = {"row": "rows", "column": f"values of {sample.name!r}", "individual": "individuals"}[sample.kind]
        whose = f"the account {old.account!r}" if old.account else f"the split {old.split!r}"
        sentences.append(f"its {what} look like those of {whose}")
    return sentences


def _hashes(source: Source, one: _Asked, secret: str, part: float) -> dict[int, int]:
    """How many rows have each hash whose place is below a limit."""
    table = source.table
    hashed = table.select(p=_place(table, one, secret), h=_digest(table, one.columns, secret))
    counted = source.fetch(hashed.filter(hashed.p < part).group_by(["p", "h"]).aggregate(n=ibis._.count()))
    places, digests, counts = (counted.column(name).to_pylist() for name in ("p", "h", "n"))
    return {
        int(place * (1 << _PLACES)) << 4 * _DIGITS | int(digest[:_DIGITS], 16): count
        for place, digest, count in zip(places, digests, counts, strict=True)
    }


def _digest(table: ibis.Table, columns: Sequence[str], secret: str) -> ir.StringValue:
    """A keyed hash of what the cells of these columns mean; missing where all of them are."""
    texts = [comparable_text(table[name]) for name in columns]
    joined: ir.StringValue = reduce(operator.add, [text + "\x1f" for text in texts])
    return (ibis.literal(secret) + joined.nullif("\x1f" * len(texts))).hexdigest("md5")


def _place(table: ibis.Table, one: _Asked, secret: str) -> ir.FloatingValue:
    """A number in [0, 1), spread evenly: the fraction of a keyed multiple of a number's root, or else from the hash.

    The fraction is a matter of few operations, where hashing all rows of a large table would take longer than the release.
    The root leaves one also to large numbers. The number is named once: engines compute it as often as it is named.
    """
    if one.chosen_by is None:
        last = _digest(table, one.columns, secret).substr(_DIGITS, _PLACES // 4)
        return ("0x" + last).cast("int64").cast("float64") * (1 / (1 << _PLACES))
    step = float(f"{1000 + int(secret[:8], 16) / 2.0**25:.9f}")
    return number_in(table[one.chosen_by]).abs().sqrt() * step % 1.0
