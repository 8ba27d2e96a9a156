"""Trainings without Flower: rounds by files and by Python come to the model that the rows would give."""

from __future__ import annotations

import numpy as np
import pytest

from saibot.client.federating import TrainedModel
from saibot.errors import InvalidInput
from saibot.federated import ModelColumn, TrainingPlan, check_document, first_state, next_state
from saibot.federated.network import Network
from saibot.privacy.ledger import Ledger
from saibot.privatize.training_round import train_round
from tests.support.training import AGREED, clinic_card, clinic_plan, clinic_rows


def trained(plan, cards, tables, tmp_path):
    state = first_state(plan)
    for _ in range(plan.rounds):
        given = [
            train_round(table, card, plan, state, Ledger(tmp_path / card.dataset.name), agreed=AGREED)
            for card, table in zip(cards, tables, strict=True)
        ]
        state = next_state(plan, state, given)
    return state


def test_one_round_of_a_linear_model_is_least_squares_on_everybodys_rows(tmp_path):
    cards, tables = (
        (clinic_card("north", epsilon="50"), clinic_card("south", epsilon="50")),
        (clinic_rows(1, 3000), clinic_rows(2, 4000)),
    )
    plan = clinic_plan(*cards, epsilon="50")
    state = trained(plan, cards, tables, tmp_path)
    model = TrainedModel(plan, state, cards[0])
    rows = clinic_rows(3, 4000)
    wide, truth = [], []
    for table in tables:
        wide.append(np.column_stack([np.ones(len(table)), *model.columns(table)]))
        truth.append(table.nights.clip(0, 10))
    best, *_ = np.linalg.lstsq(np.vstack(wide), np.concatenate(truth), rcond=None)
    expected = np.column_stack([np.ones(len(rows)), *model.columns(rows)]) @ best
    assert np.abs(model.predict(rows) - expected).max() < 0.15
    assert model.score(rows) > 0.7
    assert state.trained == ("north", "south")


def test_rounds_of_logistic_regression_come_to_its_fit(tmp_path):
    card, rows = clinic_card("north", epsilon="20"), clinic_rows(1, 20_000)
    long = ModelColumn(name="long", levels=("1",))
    plan = clinic_plan(card, target=long, family="binomial", rounds=8, epsilon="20", joined=(), clip=1.5)
    state = trained(plan, [card], [rows], tmp_path)
    chance = TrainedModel(plan, state, card).predict(rows)
    assert np.abs(chance - 1 / (1 + np.exp(-0.06 * (rows.years - 60)))).mean() < 0.03


def test_hidden_units_learn_what_a_line_cannot_and_more_noise_makes_it_worse(tmp_path):
    card, rows = clinic_card("north", epsilon="20"), clinic_rows(1, 30_000)
    rows["nights"] = 2 + 6 * np.abs(rows.years / 100 - 0.5) + np.random.default_rng(1).normal(0, 0.3, len(rows))
    scores = {}
    for name, changes in {
        "line": {"epsilon": "20"},
        "hidden": {"epsilon": "20", "hidden": 4, "rounds": 5},
        "little": {"epsilon": "0.01", "hidden": 4, "rounds": 5},
    }.items():
        plan = clinic_plan(card, joined=(), clip=3.0, **changes)
        scores[name] = TrainedModel(plan, trained(plan, [card], [rows], tmp_path / name), card).score(rows)
    assert scores["line"] < 0.1 and scores["hidden"] > 0.6
    assert scores["little"] < scores["hidden"] - 0.2


def test_what_is_derived_are_the_derivatives_of_the_score():
    network, rng = Network(3, 2, "gaussian"), np.random.default_rng(1)
    columns, weights = [rng.uniform(-1, 1, 5) for _ in range(3)], rng.normal(size=network.size)
    derived = network.derived(columns, np.zeros(5), weights)
    for place in range(network.size):
        step = np.eye(network.size)[place] * 1e-6
        slope = (network.mean(columns, weights + step) - network.mean(columns, weights - step)) / 2e-6
        assert np.allclose(derived[place], slope, atol=1e-6)
    assert np.allclose(derived[-1], -network.mean(columns, weights))


def test_a_probability_is_the_logistic_function_of_the_score():
    scores = np.linspace(-25, 25, 101)
    network = Network(1, 0, "binomial")
    assert np.allclose(network.mean([scores], np.array([0.0, 1.0])), 1 / (1 + np.exp(-scores)), rtol=1e-9)


def test_a_step_takes_only_contributions_to_its_own_round(tmp_path):
    card, rows = clinic_card("north"), clinic_rows(1, 500)
    plan = clinic_plan(card, hidden=1, rounds=2)
    state = first_state(plan)
    given = train_round(rows, card, plan, state, Ledger(tmp_path), agreed=AGREED)
    with pytest.raises(InvalidInput, match="one contribution of each"):
        next_state(plan, state, [given, given])
    with pytest.raises(InvalidInput, match="another round"):
        next_state(plan, next_state(plan, state, [given]), [given])
    with pytest.raises(InvalidInput, match="is not 55 numbers"):
        next_state(plan, state, [given.but(products=given.products[:-1])])
    with pytest.raises(InvalidInput, match="another plan"):
        next_state(clinic_plan(card, seed=9), state, [given])


def test_a_plan_that_makes_no_sense_is_refused_in_a_line():
    plan = clinic_plan(clinic_card("north")).to_json()
    for field, value, said in (
        ("hidden", 1000, "hidden"),
        ("epsilon", 1, "epsilon"),
        ("trainers", plan["trainers"] * 2, "trains once"),
        ("columns", plan["columns"] * 2, "each of them once"),
        ("surprise", 1, "surprise"),
    ):
        with pytest.raises(InvalidInput, match=said):
            check_document(TrainingPlan, plan | {field: value}, "the plan")
