"""The terms of a release are the same options wherever a release is planned or made."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

from saibot.cli.plan import plan
from saibot.cli.preview import preview
from saibot.cli.privatize import privatize
from saibot.cli.terms import ReleaseTerms, with_terms


@pytest.mark.parametrize("command", [plan, preview, privatize])
def test_a_command_with_terms_has_all_their_options_with_their_defaults(command):
    shown = inspect.signature(command).parameters
    assert "terms" not in shown
    assert {field.name: shown[field.name].default for field in fields(ReleaseTerms)} == vars(ReleaseTerms())


def test_the_options_reach_the_command_as_one_value():
    seen = []

    @with_terms
    def command(table: str, *, terms: ReleaseTerms, json: bool = False) -> None:
        seen.append((table, terms, json))

    given = vars(ReleaseTerms()) | {"epsilon": "0.5", "layout": "union"}
    command(table="t", json=True, **given)
    assert seen == [("t", ReleaseTerms(epsilon="0.5", layout="union"), True)]
