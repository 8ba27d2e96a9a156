"""How often searches have taken a dataset: totals alone, for by whom is nobody's business.

`datasets.used` is the lifetime number, and grows with every search that ends: results are removed after some days, and it
stays. `taken` says which datasets the kept searches took. What was counted lately is among what was ever counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import Connection, delete, func, insert, select, text, update

from saibot.platform.storage.tables import datasets, taken, versions


def count(connection: Connection, search: str, digests: Collection[str]) -> None:
    """A search has ended that took these sketches. Once for each dataset, in the transaction that ends the search."""
    if connection.dialect.name != "sqlite":
        # Who publishes may hold one of these rows and wait for another. The end of a search gives up first: the runner tries
        # it again. Postgres would choose one of the two after a second.
        connection.execute(text("SET LOCAL lock_timeout = '700ms'"))
    found = sorted({number for digest in digests if (number := _dataset_of(connection, digest)) is not None})
    for number in found:
        this = update(datasets).where(datasets.c.number == number).values(used=datasets.c.used + 1)
        for id in connection.execute(this.returning(datasets.c.id)).scalars():
            connection.execute(insert(taken).values(search=search, dataset=id))


def forget(connection: Connection, searches: Iterable[str]) -> None:
    """These searches are kept no longer."""
    for id in searches:
        connection.execute(delete(taken).where(taken.c.search == id))


def total_and_lately(connection: Connection, dataset: str) -> tuple[int, int]:
    """How many searches have ever taken a dataset, and how many of those that are kept."""
    lately = select(func.count()).select_from(taken).where(taken.c.dataset == dataset).scalar_subquery()
    row = connection.execute(select(datasets.c.used, lately).where(datasets.c.id == dataset)).first()
    return (0, 0) if row is None else (int(row[0]), int(row[1]))


def _dataset_of(connection: Connection, digest: str) -> int | None:
    """Which dataset a sketch is of; where several have the same file, the original."""
    query = select(datasets.c.number).join(versions, versions.c.dataset == datasets.c.number)
    query = query.where(versions.c.digest == digest).order_by(datasets.c.copy_of.is_not(None), datasets.c.number)
    return connection.execute(query.limit(1)).scalar()
