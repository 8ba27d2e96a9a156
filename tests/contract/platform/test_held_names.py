"""Names that several hold one after the other, on either database: who holds one keeps nobody from another, and nobody
waits longer than they have patience."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from saibot.platform.errors import Busy
from saibot.platform.storage.database import Database


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('held') / 'x.db'}"
    else:
        url = request.getfixturevalue("postgres")().replace("postgresql://", "postgresql+psycopg://")
    found = Database(url)
    yield found
    found.close()


def held_meanwhile(database: Database, *names: str, patience: float = 0.2) -> bool:
    """Whether somebody else may have these names at this moment."""
    found: list[bool] = []

    def ask() -> None:
        try:
            with database.holding(*names, patience=patience):
                found.append(True)
        except Busy:
            found.append(False)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(20)
    assert found
    return found[0]


def test_a_name_that_is_held_is_waited_for_with_patience_and_others_are_free(database: Database) -> None:
    with database.holding("sketch a", "payload b"):
        assert not held_meanwhile(database, "payload b", "account c")
        assert held_meanwhile(database, "account c") and held_meanwhile(database, "sketch b", "account c")
    assert held_meanwhile(database, "payload b", "sketch a", patience=0.0)


def test_what_is_asked_for_in_another_order_is_held_all_the_same(database: Database) -> None:
    done: list[int] = []

    def work(names: tuple[str, ...]) -> None:
        for _ in range(30):
            with database.holding(*names):
                done.append(1)

    threads = [threading.Thread(target=work, args=(names,), daemon=True) for names in (("a", "b", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(done) == 60


def test_names_that_nobody_holds_take_no_memory(database: Database) -> None:
    for number in range(100):
        with database.holding(f"sketch {number}"):
            pass
    if database.is_sqlite:
        assert database._held is not None and not database._held._locks
