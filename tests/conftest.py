"""What every test gets: its own ledger folder, and short or full form by SAIBOT_FULL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.support")  # so that an assert in a helper says what it compared

# What tests publish has next to no noise, so that what is found does not hang on luck; servers that they start know of it.
os.environ.setdefault("SAIBOT_MAX_EPSILON", "1000000")
FULL = os.environ.get("SAIBOT_FULL", "") not in ("", "0")

# A contributor's runs search anew each time. Continuous integration judges a change by the same examples every time, so that
# what it says is about the change; the long form searches there, too.
settings.register_profile("search", deadline=None, print_blob=True)
settings.register_profile("ci", parent=settings.get_profile("search"), derandomize=True)
settings.register_profile("full", parent=settings.get_profile("search"), max_examples=2000)
settings.load_profile("full" if FULL else "ci" if os.environ.get("CI") else "search")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if FULL:
        return
    skip = pytest.mark.skip(reason="slow: run make test-full")
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def full() -> bool:
    """Whether statistical and fault tests run in their long form."""
    return FULL


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[], str]]:
    """postgres(): the address of a new, empty database. The server is a real one, from a wheel, for this run alone."""
    from tests.support.postgres import running_postgres

    with running_postgres() as new_database:
        yield new_database


@pytest.fixture(scope="session")
def guide_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guide, built once for all workers of a run in the quick way, without a network; and packed beside it."""
    from tests.support.built_site import built_site

    base = tmp_path_factory.getbasetemp()
    return built_site(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)


@pytest.fixture(autouse=True)
def saibot_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test may touch the ledger of whoever runs it."""
    home = tmp_path / "saibot-home"
    monkeypatch.setenv("SAIBOT_HOME", str(home))
    return home
