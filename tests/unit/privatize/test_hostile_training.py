"""Plans, weights and contributions that somebody made to learn more than a trainer pays for, or to make it fail."""

from __future__ import annotations

import builtins
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from saibot.errors import InvalidCard, InvalidInput, LedgerConflict
from saibot.federated import ModelState, TrainingPlan, check_document, first_state, next_state
from saibot.federated.training_plan import MOST_BYTES, read_document
from saibot.privacy import Budget
from saibot.privacy.ledger import Ledger
from saibot.privatize import ReleaseRequest, privatize, training_round
from saibot.privatize.grid import Grid
from saibot.privatize.training_round import train_round
from saibot.privatize.tuning import note_look
from tests.support.training import AGREED, clinic_card, clinic_plan, clinic_rows


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "home")


def charged(ledger):
    account = ledger.account("north")
    return 0 if account is None else len(account.entries)


def unread(*given, **named):
    raise AssertionError("rows were read")


# ------------------------------------------------------------------------------------------------ rows that are no numbers


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e200], ids=["nan", "inf", "-inf", "square overflows"])
def test_a_row_with_an_entry_that_is_no_number_counts_as_zeros_and_moves_no_other(wrong):
    grid = Grid(20, 1)
    columns = [np.array([0.3, 0.3, 0.3]), np.array([0.2, wrong, 0.2])]
    steps = training_round._clipped(columns, grid)
    assert (steps[:, 1] == 0).all()
    assert (steps[:, 0] == training_round._clipped([c[:1] for c in columns], grid)[:, 0]).all() and steps[0, 0] != 0


def test_what_is_no_number_does_not_pass_the_check_of_a_rows_length(monkeypatch):
    monkeypatch.setattr(np, "isfinite", lambda values: np.ones_like(values, bool))
    with pytest.raises(Exception, match="longer than the bound"):
        training_round._clipped([np.array([np.nan])], Grid(20, 1))


@pytest.mark.parametrize("weight", [1e303, 2e6, float("nan"), float("inf")])
def test_weights_that_would_overflow_are_refused_before_anything_is_done(weight):
    state = first_state(clinic_plan(clinic_card("north"))).to_json()
    with pytest.raises(InvalidInput, match="weights"):
        check_document(ModelState, state | {"weights": [weight, 0, 0, 0]}, "the state")


@pytest.mark.parametrize(
    ("field", "value"),
    [("clip", 1e-300), ("clip", 1e7), ("clip", float("nan")), ("epsilon", "nan"), ("epsilon", "1" * 100), ("seed", 10**30)],
)
def test_terms_without_measure_are_refused(field, value):
    plan = clinic_plan(clinic_card("north")).to_json()
    with pytest.raises(InvalidInput, match=field):
        check_document(TrainingPlan, plan | {field: value}, "the plan")


# ------------------------------------------------------------------------------------------------ joined values


@pytest.mark.parametrize("values", [(1, 2, 3), (1, 2, 3, 4, 5, 6), (1,) * 8])
def test_a_joined_column_without_a_value_for_every_key_is_refused_before_rows_are_read(values, ledger, monkeypatch):
    monkeypatch.setattr(training_round, "prepare", unread)
    card = clinic_card("north")
    plan = clinic_plan(card)
    plan = plan.but(joined=(plan.joined[0].but(values=values),))
    with pytest.raises(InvalidInput, match="one more than keys"):
        train_round(clinic_rows(1, 50), card, plan, first_state(plan), ledger, agreed=AGREED)


def test_every_part_of_a_key_has_a_list_of_its_own():
    plan = clinic_plan(clinic_card("north")).to_json()
    (one,) = plan["joined"]
    for changes in ({"domains": one["domains"] * 2, "parts": ["a", "b"]}, {"parts": ["a", "b"]}, {"domains": ["town"]}):
        with pytest.raises(InvalidInput, match="joined"):
            check_document(TrainingPlan, plan | {"joined": [one | changes]}, "the plan")


# ------------------------------------------------------------------------------------------------ consent


@pytest.mark.parametrize(
    ("agreed", "said"),
    [
        (None, "not agreed"),
        (Budget("0.9", "1e-6"), "more than"),
        (Budget("1", "1e-7"), "more than"),
        ("0" * 64, "another plan"),
    ],
)
def test_a_trainer_says_what_it_agrees_to_before_its_rows_are_read(agreed, said, ledger, monkeypatch):
    monkeypatch.setattr(training_round, "prepare", unread)
    card = clinic_card("north")
    plan = clinic_plan(card)
    with pytest.raises(InvalidInput, match=said):
        train_round(clinic_rows(1, 50), card, plan, first_state(plan), ledger, agreed=agreed)


def test_it_is_said_once_for_a_plan_by_its_digest_or_its_price(ledger):
    card, rows = clinic_card("north", epsilon="2"), clinic_rows(1, 50)
    plan, other = clinic_plan(card, rounds=2), clinic_plan(card, seed=1)
    state = first_state(plan)
    state = next_state(plan, state, [train_round(rows, card, plan, state, ledger, agreed=plan.digest)])
    assert train_round(rows, card, plan, state, ledger).round == 2
    with pytest.raises(InvalidInput, match="not agreed"):
        train_round(rows, card, other, first_state(other), ledger)


def test_a_plan_opens_no_account_and_changes_no_bounds(ledger, monkeypatch):
    monkeypatch.setattr(training_round, "prepare", unread)
    card, rows = clinic_card("north"), clinic_rows(1, 50)
    plan = clinic_plan(card)
    uncapped = type(card).parse({k: v for k, v in card.document().items() if k != "budget"}, folder=card.folder)
    with pytest.raises(InvalidCard, match="no cap"):
        train_round(rows, uncapped, plan, first_state(plan), ledger, agreed=AGREED)
    age, ward = plan.columns
    for columns in ((age.but(bounds=(0, 1)), ward), (age, ward.but(levels=("b",))), (age.but(missing=3.0), ward)):
        narrow = plan.but(columns=columns)
        with pytest.raises(InvalidCard, match="other bounds"):
            train_round(rows, card, narrow, first_state(narrow), ledger, agreed=AGREED)


# ------------------------------------------------------------------------------------------------ charging


def test_what_goes_wrong_with_the_rows_is_charged_like_an_answer(ledger, monkeypatch):
    def broken(*given):
        raise RuntimeError("a cell")

    monkeypatch.setattr(training_round, "round_statistics", broken)
    card = clinic_card("north")
    plan = clinic_plan(card)
    with pytest.raises(RuntimeError):
        train_round(clinic_rows(1, 50), card, plan, first_state(plan), ledger, agreed=AGREED)
    assert charged(ledger) == 1


def test_a_round_that_was_charged_is_never_charged_again_whatever_became_of_it(ledger, monkeypatch):
    card, rows = clinic_card("north", epsilon="10"), clinic_rows(1, 50)
    plan = clinic_plan(card)
    state = first_state(plan)
    with monkeypatch.context() as patched:
        patched.setattr(training_round, "release", unread)
        with pytest.raises(AssertionError):
            train_round(rows, card, plan, state, ledger, agreed=AGREED)
    with pytest.raises(LedgerConflict, match="answered once"):
        train_round(rows, card, plan, state, ledger, agreed=AGREED)
    other = state.but(weights=tuple(weight + 1 for weight in state.weights))
    with pytest.raises(LedgerConflict, match="other weights"):
        train_round(rows, card, plan, other, ledger, agreed=AGREED)
    assert charged(ledger) == 1
    with sqlite3.connect(ledger.home / "ledger.sqlite") as db:
        assert db.execute("SELECT once_for FROM charge").fetchall() == [(state.digest,)]


def test_of_several_that_ask_for_a_round_at_once_one_is_charged(ledger, monkeypatch):
    """As if nobody had found the other's answer yet: only the ledger's transaction is left to tell them apart."""
    card, rows = clinic_card("north", epsilon="10"), clinic_rows(1, 50)
    plan = clinic_plan(card)
    first = first_state(plan)
    states = [first.but(weights=tuple(weight + more for weight in first.weights)) for more in range(4)]
    monkeypatch.setattr(training_round, "_answered", lambda *given, **named: None)

    def ask(state):
        try:
            return train_round(rows, card, plan, state, ledger, agreed=AGREED)
        except LedgerConflict:
            return None

    with ThreadPoolExecutor(4) as pool:
        answers = [given for given in pool.map(ask, states) if given is not None]
    assert len(answers) == 1 == charged(ledger)


def test_a_round_remembers_its_rows_and_tells_its_trainer_where_it_saw_them(ledger):
    rows = clinic_rows(1, 400)
    told = []
    for name in ("north", "south"):
        card = clinic_card(name)
        plan = clinic_plan(card)
        train_round(rows, card, plan, first_state(plan), ledger, agreed=AGREED, tell=told.append)
        assert {known.account for known in ledger.known()} >= {name}
    assert any("same individuals" in sentence for sentence in told)


def test_a_card_that_was_tuned_by_looking_does_not_train(ledger):
    card = clinic_card("north")
    looked = card.document()
    looked["features"]["nights"]["bounds"] = (0, 99)
    note_look(type(card).parse(looked, folder=card.folder), "north", ledger)
    plan = clinic_plan(card)
    with pytest.raises(InvalidInput, match="looked at your rows"):
        train_round(clinic_rows(1, 50), card, plan, first_state(plan), ledger, agreed=AGREED)
    assert charged(ledger) == 0


def test_where_opendp_is_missing_neither_a_round_nor_a_release_is_charged(ledger, monkeypatch):
    imported = builtins.__import__

    def without(name, *given, **named):
        if name.startswith("opendp"):
            raise ModuleNotFoundError("no opendp", name="opendp")
        return imported(name, *given, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    card, rows = clinic_card("north"), clinic_rows(1, 50)
    plan = clinic_plan(card)
    with pytest.raises(ModuleNotFoundError):
        train_round(rows, card, plan, first_state(plan), ledger, agreed=AGREED)
    request = ReleaseRequest(card, Budget("1", "1e-6"), card.dataset.neighbours, features=("nights",))
    with pytest.raises(ModuleNotFoundError):
        privatize(rows, request, ledger)
    assert charged(ledger) == 0


# ------------------------------------------------------------------------------------------------ files and contributions


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b"1" * 10_000, b'{"clip": NaN}', b"\xff", b" " * (MOST_BYTES + 1)], ids=range(5)
)
def test_a_file_that_is_deep_long_or_no_document_is_refused_in_a_line(content, tmp_path):
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInput) as refused:
        read_document(TrainingPlan, path, "training plan")
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("field", "value"), [("dataset", "x" * 1000), ("plan", "x"), ("rows", 1e300), ("noise", float("inf"))]
)
def test_a_contribution_has_measure(field, value, ledger):
    card = clinic_card("north")
    plan = clinic_plan(card)
    given = train_round(clinic_rows(1, 50), card, plan, first_state(plan), ledger, agreed=AGREED)
    with pytest.raises(InvalidInput, match=field):
        check_document(type(given), given.to_json() | {field: value}, "the contribution")


def test_a_step_believes_no_other_noise_than_the_plans_and_tells_what_it_cannot_solve(ledger, monkeypatch):
    card = clinic_card("north")
    plan = clinic_plan(card)
    state = first_state(plan)
    given = train_round(clinic_rows(1, 50), card, plan, state, ledger, agreed=AGREED)
    for noise in (0.0, given.noise * 2):
        with pytest.raises(InvalidInput, match="other noise"):
            next_state(plan, state, [given.but(noise=noise)])
    far = tuple(1e18 if place == plan.network.size else 0.0 for place in range(len(given.products)))
    with pytest.raises(InvalidInput, match="weights"):
        next_state(plan, state, [given.but(products=far)])

    def unsolved(matrix):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(np.linalg, "eigh", unsolved)
    with pytest.raises(InvalidInput, match="no next weights"):
        next_state(plan, state, [given])
