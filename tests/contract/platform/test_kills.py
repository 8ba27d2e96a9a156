"""The short form of the campaign of kills; `make kills` is the long one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.campaigns import migrations
from tests.campaigns.kills import campaign


def test_what_was_acknowledged_survives_kills_and_the_campaign_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    assert campaign(tmp_path, 4)["kills"] == 4
    found = campaign(tmp_path, 8)
    assert found["kills"] == 8 and found["acknowledged"] >= found["there"] > 0


def test_the_same_holds_on_postgres_which_crashes_as_well(tmp_path: Path, postgres: Any) -> None:
    found = campaign(tmp_path, 6, postgres=postgres)
    assert found["kills"] == 6 and found["acknowledged"] >= found["there"] > 0


@pytest.mark.parametrize("where", ["sqlite", "postgres"])
def test_a_platform_of_the_first_tables_is_brought_up_to_date_whatever_is_killed(
    tmp_path: Path, where: str, request: pytest.FixtureRequest
) -> None:
    postgres = request.getfixturevalue("postgres") if where == "postgres" else None
    found = migrations.campaign(tmp_path, 3, postgres=postgres, held=20)
    assert found["kills"] >= 3 and found["then"]["0001"] > 0, "some were killed half way"
