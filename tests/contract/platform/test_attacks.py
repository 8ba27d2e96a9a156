"""The short form of the campaign of attacks; `make attacks` is the long one, and measures how long others wait as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns.attacks import ATTACKS, campaign

# Small files show little; these attacks are cheap to send at full size, or are quick.
SHORT = [
    "bombs",
    "tiny headers",
    "bodies of nobody",
    "many connections",
    "endless heads",
    "many searches",
    "keys come and go",
]


@pytest.mark.fault
def test_attacks_take_little_memory_break_nothing_and_lose_nothing(tmp_path: Path) -> None:
    assert set(SHORT) < set(ATTACKS)
    lines = list(campaign(tmp_path, quick=True, only=SHORT))
    assert [line.attack for line in lines[1:]] == SHORT
    assert {line.attack: broken for line in lines if (broken := line.broken(timed=False))} == {}
    assert all(line.statuses for line in lines[1:]), "an attack that asked for nothing"
