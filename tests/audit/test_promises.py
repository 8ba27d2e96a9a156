"""Promises about histories and wires are kept by this version."""

from __future__ import annotations

import pytest

from saibot.audit.promises import CHECKS


@pytest.mark.parametrize("check", CHECKS)
def test_the_promise_is_kept(check):
    verdicts = list(CHECKS[check]())
    assert verdicts
    assert all(verdict.kept for verdict in verdicts), verdicts
