"""Conditions on who may know of what are built once for each kind of caller, and never without the caller's name."""

from __future__ import annotations

import pytest
from sqlalchemy import select
from sqlalchemy.exc import StatementError

from saibot.platform.accounts import NOBODY, Caller
from saibot.platform.service import Platform
from saibot.platform.storage.tables import datasets
from saibot.platform.visibility import asked_by, kind_of, visible

ONE, OTHER = (Caller(name, frozenset({"requester"}), f"t-{name}") for name in ("one", "other"))
PROVIDER = Caller("agency", frozenset({"provider"}), "t")
ADMIN = Caller("root", frozenset({"admin", "provider"}), "t")


def test_callers_of_one_kind_share_a_condition() -> None:
    assert visible(ONE) is visible(OTHER)
    assert [kind_of(who) for who in (NOBODY, PROVIDER, ONE, ADMIN)] == ["nobody", "account", "requester", "admin"]


@pytest.mark.parametrize("caller", [ONE, PROVIDER], ids=["requester", "provider"])
def test_a_query_that_does_not_say_who_asks_is_not_run(platform: Platform, caller: Caller) -> None:
    with platform.database.read() as connection:
        query = select(datasets.c.id).where(visible(caller))
        with pytest.raises(StatementError):
            connection.execute(query)
        assert connection.execute(query, asked_by(caller)).all() == []
