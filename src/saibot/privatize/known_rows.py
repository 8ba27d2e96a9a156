"""What a table's rows look like, as keyed hashes that stay in the ledger: to recognise individuals who have a cap already.

Hashed is what cells mean (`comparable_text`), so that another file format, order of rows, extra column or way of writing a
number changes nothing. All hashing is done by DuckDB, whatever engine the rows are in, so that samples of one table are the
same from everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import ibis
import ibis.expr.types as ir

from saibot.privacy.ledger import Ledger
from saibot.privacy.samples import Kind, Known, Sample, looks_known
from saibot.privatize.cells import comparable_text
from saibot.privatize.read import Source

_LOOKED_AT = 16_384  # rows whose hashes are fetched, about: of larger tables those with the smallest
_BITS = 60
_UNIQUE = 0.5  # of a column's cells must be different: what many rows share tells no rows


def samples_of(source: Source, ledger: Ledger, *, cells: Sequence[str], keys: Sequence[str], id: str | None) -> list[Sample]:
    """Samples of rows (cells and keys together), of each column of cells that tells rows apart, and of individuals."""
    secret = ledger.secret("known rows")
    source = _in_duckdb(source, [*cells, *keys, *([id] if id else [])])
    total = int(source.fetch(source.table.aggregate(n=source.table.count())).column("n")[0].as_py())
    below = 1 << _BITS if total <= _LOOKED_AT else int((1 << _BITS) * _LOOKED_AT / total)

    def sample(kind: Kind, names: Sequence[str]) -> Sample | None:
        found = _hashes(source, names, secret, below)
        rows = sum(found.values())
        if kind == "column" and len(found) < _UNIQUE * rows:
            return None
        return Sample.of(kind, "" if len(names) > 1 else names[0], found, below=below)

    asked: list[tuple[Kind, Sequence[str]]] = [("column", [name]) for name in dict.fromkeys(cells)]
    asked += [("row", list(dict.fromkeys([*cells, *keys])))] if len(cells) + len(keys) > 1 else []
    asked += [("individual", [id])] if id else []
    return [found for kind, names in asked if (found := sample(kind, names)) is not None and len(found.hashes)]


def resembling(samples: Sequence[Sample], known: Sequence[Known]) -> list[str]:
    """One sentence for each account or split whose rows these look like."""
    sentences = []
    for old, sample in looks_known(samples, known):
        what = {"row": "rows", "column": f"values of {sample.name!r}", "individual": "individuals"}[sample.kind]
        whose = f"the account {old.account!r}" if old.account else f"the split {old.split!r}"
        sentences.append(f"its {what} look like those of {whose}")
    return sentences


def _hashes(source: Source, names: Sequence[str], secret: str, below: int) -> dict[int, int]:
    """How many rows have each hash below a limit. Rows in which all of it is missing have none."""
    table = source.table
    text: ir.StringValue = reduce(add, [comparable_text(table[name]) + "\x1f" for name in names])
    known = reduce(lambda a, b: a | b, [comparable_text(table[name]) != "" for name in names])
    hashed = table.filter(known).select(h=(ibis.literal(secret) + text).hexdigest("md5").substr(0, _BITS // 4))
    limit = f"{below:0{_BITS // 4}x}" if below < 1 << _BITS else "g"
    counted = source.fetch(hashed.filter(hashed.h < limit).group_by("h").aggregate(n=ibis._.count()))
    return {int(h, 16): n for h, n in zip(counted.column("h").to_pylist(), counted.column("n").to_pylist(), strict=True)}


def _in_duckdb(source: Source, names: Sequence[str]) -> Source:
    if source.engine.name == "duckdb":
        return source
    columns = source.table.select(*dict.fromkeys(names))
    return Source(ibis.memtable(source.fetch(columns)), ibis.duckdb.connect(), None)
