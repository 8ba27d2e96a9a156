"""A mechanism is one entry: whoever enters one finds it in the commands, in plans, in the words of pages, in the audit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from saibot.audit.cases import tight_cases
from saibot.audit.worst_pairs import audited_plans
from saibot.cli.app import app
from saibot.errors import UnsupportedPlan
from saibot.privacy import Budget, Neighbours
from saibot.privacy.mechanisms import MECHANISMS, Mechanism, PlanRequest, confirmed, fpm, make_plan, register
from saibot.privacy.mechanisms.registry import JOIN, UNION
from saibot.report.words import mechanism as words_of

CLOSE = replace(JOIN, name="close", description="Per key it holds what is near.")


def asked(**other) -> PlanRequest:
    facts = {"features": 2, "bound_squared": Decimal(2), "order": 2, "budget": Budget("1", "1e-6")}
    facts |= {"neighbours": Neighbours.REPLACE_ONE, "row_count_public": True}
    return PlanRequest(**({"mechanism": "cautious", "layout": "close"} | facts | other))


def twice_the_noise(request: PlanRequest):
    made = fpm.plan(request)
    return replace(made, blocks=tuple(replace(block, sigma=2 * block.sigma) for block in made.blocks))


@pytest.fixture
def entry(tmp_path: Path) -> Mechanism:
    proof = tmp_path / "cautious.proof.md"
    proof.write_text("## Claim\nTwice the noise of one that is proved.\n")
    return Mechanism("cautious", "Twice the noise.", (CLOSE, UNION), ("classical",), twice_the_noise, proof)


@pytest.fixture
def cautious(entry: Mechanism) -> Iterator[Mechanism]:
    yield register(entry)
    del MECHANISMS["cautious"]


def said(*words: str) -> str:
    shown = CliRunner().invoke(app, [*words], env={"COLUMNS": "300", "TERM": "dumb"})
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", shown.stdout).split())


@pytest.mark.parametrize("command", ["plan", "preview", "privatize"])
def test_the_commands_offer_it_and_its_layouts_while_it_is_there(cautious, command):
    assert "fpm, fpm-opt, joint, cautious." in said(command, "--help")
    assert "joint: lookup, semiring, union; cautious: close, union." in said(command, "--help")
    del MECHANISMS["cautious"]
    try:
        assert "cautious" not in said(command, "--help")
    finally:
        MECHANISMS["cautious"] = cautious


def test_a_plan_of_it_is_made_by_its_own_function_in_its_own_layout(cautious):
    assert [block.sigma for block in make_plan(asked()).blocks] == [
        2 * block.sigma for block in make_plan(asked(mechanism="fpm", layout="join")).blocks
    ]
    shown = json.loads(said("plan", "--mechanism", "cautious", "--features", "2", "--json"))
    assert shown["request"]["layout"] == "close"
    assert shown["blocks"] == make_plan(asked()).to_json()["blocks"]


def test_what_it_has_no_layout_calibration_or_allocation_for_is_refused(cautious):
    with pytest.raises(UnsupportedPlan, match="does not go with cautious; it has close, union"):
        asked(layout="lookup")
    with pytest.raises(UnsupportedPlan, match="cautious is calibrated by the classical bound; analytic goes with"):
        asked(calibration="analytic")
    with pytest.raises(UnsupportedPlan, match="--allocation goes with the mechanism joint"):
        asked(allocation="auto")
    with pytest.raises(UnsupportedPlan, match="cautious does not release products per key"):
        replace(cautious, layouts=(UNION,)).default_layout(keyed=True, products=True)


def test_a_foreign_plan_of_it_is_confirmed_by_making_it_again_or_as_it_says_itself(cautious):
    plan = make_plan(asked())
    bare = replace(plan, blocks=fpm.plan(plan.request).blocks)
    assert confirmed(plan) and not confirmed(bare)
    MECHANISMS["cautious"] = replace(cautious, confirm=lambda claimed, tolerance: claimed == bare)
    assert confirmed(bare) and not confirmed(plan)


def test_its_own_check_is_asked_before_a_plan_is_made(cautious):
    def refuse(request: PlanRequest) -> None:
        raise UnsupportedPlan("not on a Sunday.")

    MECHANISMS["cautious"] = replace(cautious, check=refuse)
    with pytest.raises(UnsupportedPlan, match="Sunday"):
        asked()


def test_pages_have_its_words(cautious):
    assert words_of("cautious", "close") == ("Twice the noise.", "Per key it holds what is near.")


def test_the_audit_attacks_it(cautious):
    MECHANISMS["cautious"] = replace(cautious, calibrations=("classical", "analytic"))
    assert {case.group for case in tight_cases()} >= {"cautious close Gaussian", "cautious union Laplace"}
    assert {plan.request.layout for plan in audited_plans("1") if plan.request.mechanism == "cautious"} == {"close", "union"}


def test_a_name_is_given_once_and_never_without_a_proof(entry):
    with pytest.raises(ValueError, match="already"):
        register(replace(entry, name="joint"))
    entry.proof.unlink()
    with pytest.raises(ValueError, match=r"no proof: cautious\.proof\.md is missing"):
        register(entry)
    assert "cautious" not in MECHANISMS
