"""Shared by the tests of `privacy`: a ledger in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from saibot.privacy.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "home")
