"""Promises about histories and wires are kept by this version."""

from __future__ import annotations

import pytest

from saibot.audit.promises import CHECKS

NOT_YET = {"template"}  # a table without a header still gives its first row to the card


@pytest.mark.parametrize("check", [check for check in CHECKS if check not in NOT_YET])
def test_the_promise_is_kept(check):
    verdicts = list(CHECKS[check]())
    assert verdicts
    assert all(verdict.kept for verdict in verdicts), verdicts


@pytest.mark.xfail(reason="the first line of a table without a header is still taken for names", strict=True)
@pytest.mark.parametrize("check", sorted(NOT_YET))
def test_the_promise_is_not_kept_yet(check):
    assert all(verdict.kept for verdict in CHECKS[check]())
