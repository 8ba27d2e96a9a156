"""Queries that ask for today are compiled once, and still ask anew each time they run."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from saibot.platform import clock
from saibot.platform.service import Platform
from saibot.platform.storage.shared_day import SharedDay


def test_a_compiled_query_is_kept() -> None:
    first, second = select(SharedDay())._generate_cache_key(), select(SharedDay())._generate_cache_key()
    assert first is not None and first == second


def test_a_kept_query_knows_that_the_day_has_changed(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> str:
        with platform.database.read() as connection:
            return str(connection.execute(select(SharedDay())).scalar_one())

    for day in ("2030-01-01", "2030-01-02"):
        monkeypatch.setattr(clock, "today", lambda day=day: day)
        assert asked() == day
