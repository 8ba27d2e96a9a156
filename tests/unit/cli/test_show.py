"""How commands speak."""

from __future__ import annotations

import pytest

from saibot.cli.options import key_sizes
from saibot.cli.show import progress
from saibot.errors import InvalidInput


def test_key_sizes_are_whole_numbers():
    assert key_sizes("1500,32,5") == (1500, 32, 5) and key_sizes(None) == ()
    for bad in ("many", "10,,3", "0", "-4,2"):
        with pytest.raises(InvalidInput, match="whole numbers"):
            key_sizes(bad)


def test_progress_says_nothing_where_nobody_is_looking(capsys):
    with progress() as tell:
        tell("reading", 0.5)
    assert capsys.readouterr() == ("", "")
