"""How `saibot ledger` tells what is left."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from saibot.cli.ledger import _left


@pytest.mark.parametrize(("left", "told"), [(1.078e-09, "0"), (0.0, "0"), (0.25, "0.25"), (2e-06, "2×10⁻⁶")])
def test_what_rounding_left_over_is_told_as_nothing(left, told):
    assert _left(SimpleNamespace(left_epsilon=left)) == told
