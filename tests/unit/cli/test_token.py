"""How the state of a token is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from saibot.cli.connection import at_home
from saibot.cli.token import _state
from saibot.client import Token

TODAY = datetime.now(UTC).date()
LATER, EARLIER = (TODAY + timedelta(days=days) for days in (30, -30))


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({}, "valid"),
        ({"expires": LATER.isoformat()}, f"until {LATER}"),
        ({"expires": EARLIER.isoformat()}, f"expired {EARLIER}"),
        ({"expires": LATER.isoformat(), "revoked": f"{EARLIER}T10:00:00Z"}, f"revoked {EARLIER}"),
    ],
)
def test_a_list_of_tokens_says_which_of_them_open_anything(facts, told):
    dates = {"created": f"{EARLIER}T09:00:00Z", "expires": None, "revoked": None, "last_used": None} | facts
    token = Token(id="t1", name="clinic", roles=("provider",), **dates)
    assert _state(token) == told


def test_an_address_that_only_this_machine_reaches_is_told_to_nobody():
    assert at_home("http://127.0.0.1:8642") and at_home("http://localhost") and at_home("http://0.0.0.0:8642")
    assert not at_home("https://saibot.example.org")
