"""One round of a training: what one individual can move, what it costs, and that it is answered once."""

from __future__ import annotations

import numpy as np
import pytest

from saibot.errors import BudgetExceeded, InvalidCard, InvalidInput, LedgerConflict
from saibot.federated import ModelColumn, first_state, next_state
from saibot.privacy.ledger import Ledger
from saibot.privatize import training_round
from saibot.privatize.checking import prepare
from saibot.privatize.noise import ExactNoise
from saibot.privatize.training_round import round_statistics, train_round
from tests.support.training import AGREED, clinic_card, clinic_plan, clinic_rows

LONG = {"target": ModelColumn(name="long", levels=("1",)), "family": "binomial"}


def moved(card, plan, state, rows, others, ledger):
    """How far two tables' sums are apart, in the noise that they get: mu."""
    terms = plan.round_plan(plan.trainer(card.dataset.name))
    exact = []
    for table in (rows, others):
        ready = prepare(table, training_round._request(plan, card), ledger)
        exact.append(round_statistics(ready, plan, state, terms))
    basis, one = exact[0].basis, exact[0].grid.one
    total = 0.0
    for block in terms.blocks:
        columns = basis.slice(block.order)
        weights = np.array([monomial.multiplicity for monomial in basis.monomials[columns]])
        apart = (exact[0].whole[columns] - exact[1].whole[columns]) / float(one) ** block.order
        total += float((apart**2 * weights).sum()) / block.sigma**2
    return total**0.5, terms.mu


def pairs(card, rng):
    """Neighbouring tables: one individual replaced by another, in corners of the box and far outside it."""
    rows = clinic_rows(1, 40)
    for _ in range(4):
        other = rows.copy()
        for table in (rows, other):
            for place in range(card.dataset.rows_per_individual):
                table.loc[place, ["nights", "years", "town", "long"]] = rng.choice([-1e9, 0, 3, 10, 100, 1e9], 4)
                table.loc[place, "who"] = 0
                table.loc[place, "ward"] = rng.choice(["a", "b", "?"])
        yield rows.copy(), other


@pytest.mark.parametrize("dataset", [{}, {"id": "who", "rows_per_individual": 3, "max_rows": 100}], ids=["rows", "people"])
@pytest.mark.parametrize("changes", [{}, {"hidden": 3, "rounds": 2}, LONG | {"rounds": 3}], ids=["linear", "hidden", "yes"])
def test_replacing_one_individual_moves_the_sums_no_further_than_is_charged(dataset, changes, tmp_path):
    card = clinic_card("north", **dataset)
    plan = clinic_plan(card, **changes)
    rng = np.random.default_rng(3)
    state = first_state(plan).but(weights=tuple(rng.normal(0, 3, plan.network.size)))
    ledger = Ledger(tmp_path)
    ratios = [moved(card, plan, state, *pair, ledger) for pair in pairs(card, rng)]
    assert all(reached <= claimed * (1 + 1e-9) for reached, claimed in ratios)
    assert max(reached / claimed for reached, claimed in ratios) > 0.15, "pairs that hardly move would show nothing"


def test_without_the_clip_a_pair_moves_further_than_is_charged(tmp_path, monkeypatch):
    """So that the test above can fail."""
    unclipped = lambda columns, grid: np.array([np.floor(column * grid.one + 0.5) for column in columns])  # noqa: E731
    monkeypatch.setattr(training_round, "_clipped", unclipped)
    card = clinic_card("north")
    plan = clinic_plan(card, clip=0.3)
    rng = np.random.default_rng(3)
    found = [moved(card, plan, first_state(plan), *pair, Ledger(tmp_path)) for pair in pairs(card, rng)]
    assert max(reached / claimed for reached, claimed in found) > 1


def test_removing_an_individual_moves_the_sums_no_further_than_is_charged(tmp_path):
    card = clinic_card("north", max_rows=100)
    card = card.with_dataset(neighbours="add-remove")
    plan = clinic_plan(card, hidden=2)
    rows = clinic_rows(2, 30)
    for place in range(5):
        reached, claimed = moved(card, plan, first_state(plan), rows, rows.drop(index=place), Ledger(tmp_path))
        assert 0.1 * claimed < reached <= claimed * (1 + 1e-9)


def test_what_a_row_gives_does_not_depend_on_where_it_stands(tmp_path):
    card = clinic_card("north")
    plan = clinic_plan(card, hidden=4)
    terms, rows = plan.round_plan(plan.trainers[0]), clinic_rows(4, 301)
    sums = []
    for table in (rows, rows.iloc[::-1], rows.sample(frac=1, random_state=1)):
        ready = prepare(table, training_round._request(plan, card), Ledger(tmp_path))
        sums.append(round_statistics(ready, plan, first_state(plan), terms).whole)
    assert all(np.array_equal(sums[0], other) for other in sums[1:])


def test_all_rounds_are_charged_one_by_one_and_come_to_the_budget(tmp_path):
    card, rows, ledger = clinic_card("north"), clinic_rows(5, 200), Ledger(tmp_path)
    plan = clinic_plan(card, hidden=2, rounds=3)
    state, spent = first_state(plan), []
    for _ in range(3):
        state = next_state(plan, state, [train_round(rows, card, plan, state, ledger, agreed=AGREED)])
        account = ledger.account("north")
        assert account is not None
        spent.append(account.spent_epsilon)
    assert 0.4 < spent[0] < spent[1] < spent[2] <= 1
    assert spent[2] == pytest.approx(1, abs=1e-3)
    with pytest.raises(InvalidInput, match="all 3 rounds"):
        train_round(rows, card, plan, state, ledger, agreed=AGREED)


def test_a_round_beyond_the_cap_is_refused_before_noise_is_drawn(tmp_path):
    card, rows, ledger = clinic_card("north"), clinic_rows(5, 200), Ledger(tmp_path)
    first, other = (clinic_plan(card, seed=seed) for seed in (0, 1))
    train_round(rows, card, first, first_state(first), ledger, agreed=AGREED)

    class Never:
        simulated = False

        def gaussian(self, *given):
            raise AssertionError("noise was drawn")

    with pytest.raises(BudgetExceeded):
        train_round(rows, card, other, first_state(other), ledger, agreed=AGREED, noise=Never())


def test_the_ledger_is_charged_even_if_the_draw_fails(tmp_path):
    class Broken:
        simulated = False

        def gaussian(self, *given):
            raise RuntimeError("power cut")

    card, ledger = clinic_card("north"), Ledger(tmp_path)
    plan = clinic_plan(card)
    with pytest.raises(RuntimeError):
        train_round(clinic_rows(5, 50), card, plan, first_state(plan), ledger, agreed=AGREED, noise=Broken())
    account = ledger.account("north")
    assert account is not None and account.spent_epsilon == pytest.approx(1, abs=1e-3)


def test_a_round_is_answered_once_whatever_the_table_has_become(tmp_path):
    card, ledger = clinic_card("north"), Ledger(tmp_path)
    plan = clinic_plan(card, hidden=1, rounds=2)
    state = first_state(plan)
    given = train_round(clinic_rows(5, 50), card, plan, state, ledger, agreed=AGREED)
    assert train_round(clinic_rows(6, 70), card, plan, state, ledger, agreed=AGREED) == given
    other = state.but(weights=tuple(weight + 1 for weight in state.weights))
    with pytest.raises(LedgerConflict, match="other weights"):
        train_round(clinic_rows(5, 50), card, plan, other, ledger, agreed=AGREED)
    account = ledger.account("north")
    assert account is not None and len(account.entries) == 1


def test_a_trainer_whose_card_lacks_a_column_or_a_key_is_told_so(tmp_path):
    card = clinic_card("north")
    plan = clinic_plan(card)
    with pytest.raises(InvalidCard, match="no feature 'ward'"):
        training_round.card_for(plan, card.without("ward"))
    with pytest.raises(InvalidCard, match="no key with the list"):
        training_round.card_for(plan, card.without("town"))
    with pytest.raises(InvalidInput, match="does not train"):
        train_round(clinic_rows(1, 9), clinic_card("south"), plan, first_state(plan), Ledger(tmp_path), agreed=AGREED)


class Quieter(ExactNoise):
    """Noise that is a share of what the plan asks for."""

    def __init__(self, share):
        super().__init__()
        self.share = share

    def gaussian(self, values, scale, done):
        return super().gaussian(values, scale * self.share, done)


def spread_in_claimed_noise(noise, home):
    """The mean square of 1540 sums' noise, in units of what the contribution says of it: 1, give or take 0.036."""
    card = clinic_card("north", epsilon="50")
    plan = clinic_plan(card, hidden=10, epsilon="50")
    state, rows, ledger = first_state(plan), clinic_rows(2, 3000), Ledger(home)
    given = train_round(rows, card, plan, state, ledger, agreed=AGREED, noise=noise)
    ready = prepare(rows, training_round._request(plan, card), ledger)
    exact = round_statistics(ready, plan, state, plan.round_plan(plan.trainer("north")))
    columns = exact.basis.slice(2)
    weights = np.array([monomial.multiplicity for monomial in exact.basis.monomials[columns]])
    apart = np.array(given.products) - exact.whole[columns] / float(exact.grid.one) ** 2
    return float(np.mean(apart**2 * weights)) / given.noise**2


def test_sums_have_the_noise_that_the_contribution_claims_and_less_would_be_seen(tmp_path):
    assert abs(spread_in_claimed_noise(ExactNoise(), tmp_path / "honest") - 1) < 0.16
    assert spread_in_claimed_noise(Quieter(0.7), tmp_path / "quiet") < 0.84
