"""No verb that people use reads a whole table: what takes a millisecond here takes as long with a hundred thousand datasets.

SQLite plans the same for a few rows as for many, as it keeps no statistics here; so its plans for a few tell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select

from saibot.platform.accounts import Caller
from saibot.platform.catalog import SORTS, Filter
from saibot.platform.service import Platform
from saibot.platform.storage.tables import datasets
from saibot.wire import About

GOLDEN = Path(__file__).parents[2] / "contract" / "golden"
LARGE = "datasets|versions|terms|searches|tokens|trail"
# Reading a table from end to end, or the index that puts all live datasets into one place.
WHOLE = re.compile(rf"^SCAN ({LARGE})\b(?! USING INDEX datasets_by_)|datasets_counted")

FILTERS = [
    Filter(),
    Filter(q="north riv"),
    Filter(provider="clinic"),
    Filter(feature="age", q="no"),
    Filter(tag="health", q="no"),
]


def whole_reads(platform: Platform, verb: Callable[[], Any]) -> list[str]:
    """The statements of a verb that read a whole table, with how."""
    statements: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        if statement.lstrip().startswith(("SELECT", "WITH", "UPDATE", "DELETE")) and not many:
            statements.append((statement, parameters))

    event.listen(platform.database.engine, "before_cursor_execute", note)
    try:
        verb()
    finally:
        event.remove(platform.database.engine, "before_cursor_execute", note)
    assert statements
    found = []
    with platform.database.read() as connection:
        for statement, parameters in statements:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            found += [f"{step[3]}: {statement}" for step in plan if WHOLE.search(step[3])]
    return found


@pytest.fixture
def stocked(platform: Platform, provider: Caller, named: Callable[..., bytes]) -> Platform:
    for number in range(4):
        platform.accept(provider, named(f"set-{number}", title="north river"))
    return platform


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("window", [1, 12_000])
def test_listing(
    stocked: Platform, provider: Caller, sort: Any, filter: Filter, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saibot.platform.catalog.WINDOW", window)
    assert not whole_reads(stocked, lambda: stocked.catalog.list(provider, filter, sort=sort, limit=2))


def test_describing(stocked: Platform, provider: Caller) -> None:
    id = json.loads(stocked.catalog.list(provider, Filter(), limit=1).items[0])["id"]
    assert not whole_reads(stocked, lambda: stocked.said.change(provider, id, About(tags=("health",), licence="CC0")))
    assert stocked.catalog.list(provider, Filter(tag="health")).items
    assert not whole_reads(stocked, lambda: stocked.catalog.facets(provider, Filter(tag="health")))


def test_listing_what_names_its_account(platform: Platform, provider: Caller) -> None:
    """Totals of accounts are looked up by account. Of two, for SQLite looks a single pair up by itself."""
    for name in ("v2-lookup-levels", "v2-union-laplace"):
        platform.accept(provider, (GOLDEN / f"{name}.saibot").read_bytes())
    assert not whole_reads(platform, lambda: platform.catalog.list(provider, Filter()))


def test_showing_publishing_packing_and_withdrawing(
    stocked: Platform, provider: Caller, named: Callable[..., bytes]
) -> None:
    first = stocked.catalog.list(provider, Filter(), limit=1)
    assert first.items
    with stocked.database.read() as connection:
        id, digest = connection.execute(select(datasets.c.id, datasets.c.digest)).first() or ("", "")
    assert not whole_reads(stocked, lambda: stocked.show(provider, id))
    assert not whole_reads(stocked, lambda: stocked.open_sketch(provider, digest).close())
    assert not whole_reads(stocked, lambda: stocked.catalog.manifest(provider, "places", None, 10))
    stocked.shards.catch_up()
    assert not whole_reads(stocked, lambda: stocked.accept(provider, named("another")))
    assert not whole_reads(stocked, stocked.shards.catch_up)
    assert not whole_reads(stocked, lambda: stocked.withdraw(provider, id))


def test_a_whole_read_is_noticed(stocked: Platform) -> None:
    by_digest = select(datasets.c.id).where(datasets.c.digest == "x")

    def look() -> None:
        with stocked.database.read() as connection:
            connection.execute(by_digest).all()
            connection.execute(by_digest.where(datasets.c.state == "live")).all()

    assert len(whole_reads(stocked, look)) == 2
