"""One round of a training, from a provider's own rows: charged first, then released like any other sums.

Proof: ../privacy/mechanisms/training_round.proof.md. A row becomes the derived columns of the model at the weights of the
round (`federated/network.py`), which depend on that row and on public numbers alone. They are clipped to the plan's length
and rounded to the grid; sums of their products get noise by the plan that a sketch would have.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa

from saibot.errors import InvalidCard, InvalidInput, LedgerConflict, SaibotError
from saibot.federated.descent import Contribution, ModelState, check_state
from saibot.federated.training_plan import JoinedColumn, ModelColumn, Trainer, TrainingPlan
from saibot.privacy import Budget
from saibot.privacy.account import Charge, LedgerEntry
from saibot.privacy.events import Spent
from saibot.privacy.ledger import Ledger
from saibot.privacy.mechanisms import Plan
from saibot.privatize.aggregate import ExactStatistics, Rows, aggregate, check_room, grid_rows, key_positions
from saibot.privatize.card import Card
from saibot.privatize.checking import prepare
from saibot.privatize.doubts import doubts
from saibot.privatize.grid import Grid, clip_length
from saibot.privatize.noise import ExactNoise, NoiseSource
from saibot.privatize.privatize import samples_in
from saibot.privatize.read import TableLike
from saibot.privatize.release import MAX_BITS, choose_grid, release
from saibot.privatize.release_request import Prepared, ReleaseRequest
from saibot.privatize.schema import default_bound_squared, resolve_key
from saibot.privatize.tuning import tuned_fields
from saibot.safe_file import write_safely
from saibot.semiring import Basis

KEY = "key of the training"  # in the card that a plan makes of a trainer's, where several parts are one key
CHUNK = 1 << 15  # rows whose derived columns are in memory at a time


def trainer_of(card: Card) -> Trainer:
    """A card's terms, as they stand in a plan."""
    facts = card.dataset
    if facts.neighbours is None:
        raise InvalidCard(
            f"the card of {facts.name!r} does not say what a neighbouring table is.",
            hint='Write neighbours = "replace-one" or "add-remove" into its [dataset] section.',
        )
    return Trainer(
        dataset=facts.name,
        neighbours=facts.neighbours,
        rows_per_individual=facts.rows_per_individual,
        individuals=facts.id is not None,
    )


def card_for(plan: TrainingPlan, card: Card) -> Card:
    """A trainer's card with the plan's columns and keys alone; what the plan says of them must be what the card says."""
    trained = {column.name: _facts(column, card) for column in (plan.target, *plan.columns)}
    joined = dict.fromkeys(key_with(digest, card) for one in plan.joined for digest in one.domains)
    for one in plan.joined:
        _check_values(one, card)
    document = card.document()
    keys = {name: {part: said for part, said in document["keys"][name].items() if part != "levels"} for name in joined}
    document |= {"features": trained, "keys": keys}
    document.pop("component", None)
    if len(keys) > 1:
        document["keys"] = keys | {KEY: {"parts": list(keys)}}
    return Card.parse(document, folder=card.folder)


def train_round(
    table: TableLike,
    card: Card,
    plan: TrainingPlan,
    state: ModelState,
    ledger: Ledger,
    *,
    agreed: Budget | str | None = None,
    noise: NoiseSource | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> Contribution:
    """A trainer's contribution to the round after `state`, charged to its ledger before a cell is read.

    Whoever wrote the plan set its price, so the trainer says once what it agrees to: the most that all rounds may cost, or
    the plan's digest. A round is answered once: asked again for the same weights, the same contribution is handed out at no
    cost; for other weights it is refused. From the charge on nothing that the rows do brings it back: whether a trainer
    answers may tell of them. `tell` hears what the trainer should know about its rows; that is for nobody else.
    """
    drawn = noise or ExactNoise()
    check_state(plan, state)
    trainer = plan.trainer(card.dataset.name)
    if trainer != trainer_of(card):
        raise LedgerConflict(
            f"the plan protects {trainer.dataset!r} otherwise than its card says.", hint="Prepare the plan with this card."
        )
    if state.round >= plan.rounds:
        raise InvalidInput(f"all {plan.rounds} rounds of this plan are over.", hint="Prepare another plan.")
    if (kept := _answered(plan, state, trainer, ledger, simulated=drawn.simulated)) is not None:
        return kept
    _check_consent(plan, trainer, card, ledger, agreed)
    ready = prepare(table, _request(plan, card), ledger)
    terms = plan.round_plan(trainer)
    charge = _charge(ready, terms, state, _identity(plan, state.round + 1, ledger), card)
    if ledger.changed(ready.source, dataset=charge.dataset):
        tell("the table is another one than at the dataset's last release or round.")
    entry = ledger.charge(charge)
    _recognise(ready, charge, ledger, tell)
    exact = round_statistics(ready, plan, state, terms)
    noisy = release(exact, terms, drawn, most_rows=ready.most_rows)
    given = Contribution(
        plan=plan.digest,
        state=state.digest,
        round=state.round + 1,
        dataset=trainer.dataset,
        rows=float(ready.row_count if ready.row_count is not None else noisy.whole[0][0]),
        products=tuple(noisy.whole[2].tolist()),
        noise=plan.noise_of(trainer),
        simulation=drawn.simulated,
    )
    write_safely(ledger.home / "rounds" / f"{given.digest}.json", json.dumps(given.to_json()).encode())
    ledger.receipt(entry, given.digest)
    return given


def round_statistics(ready: Prepared, plan: TrainingPlan, state: ModelState, terms: Plan) -> ExactStatistics:
    """Exact sums of the derived columns and their products, as sensitive as the rows themselves."""
    network, weights = plan.network, np.array(state.weights)
    columns, target = _scaled_rows(ready.rows, plan)
    grid = choose_grid(terms, most_rows=ready.most_rows)
    size, count = network.size + 1, 0
    sums, products = np.zeros(size, np.int64), np.zeros((size, size), np.int64)
    for start in range(0, len(target), CHUNK):
        part = slice(start, start + CHUNK)
        with np.errstate(all="ignore"):  # a warning would tell that there is such a row
            derived = network.derived([column[part] for column in columns], target[part], weights)
        steps = _clipped([column / plan.clip for column in derived], grid)
        # Sums of so few whole numbers stay below 2^53: exact in floats, in whatever order they are added.
        count += steps.shape[1]
        sums += steps.sum(axis=1).astype(np.int64)
        products += (steps @ steps.T).astype(np.int64)
    check_room(count, grid, 2)
    whole = np.concatenate([[count], sums, products[np.triu_indices(size)]])
    basis = Basis(tuple(f"d{i:03d}" for i in range(size)), 2)
    return ExactStatistics(basis, grid, (), whole, count)


# ------------------------------------------------------------------------------------------------ inside


def _facts(column: ModelColumn, card: Card) -> dict[str, object]:
    """What the plan says of a column, and what the trainer's table calls it."""
    own = card.features.get(column.name)
    if own is None:
        raise InvalidCard(
            f"the card of {card.dataset.name!r} has no feature {column.name!r}, which the plan trains with.",
            hint="Describe the column in the card, under the name that the plan has for it.",
        )
    if own.log or (column.bounds, column.levels, column.missing) != (own.bounds, own.levels, own.missing):
        raise InvalidCard(
            f"the plan has other bounds, levels or missing values for {column.name!r} than the card of "
            f"{card.dataset.name!r}.",
            hint="All who train write the same ones into their cards, and the plan is prepared with these cards.",
        )
    said = column.model_dump(exclude={"name"}, exclude_none=True)
    return said | {"column": own.column or column.name}


def key_with(digest: str, card: Card) -> str:
    """The name of the card's key that is listed so."""
    for name, facts in card.keys.items():
        if facts.parts is None and facts.domain is not None and facts.domain.find is None:
            key = resolve_key(card, name)
            if key is not None and key.parts[0].domain.keys_digest == digest:
                return name
    raise InvalidCard(
        f"the card of {card.dataset.name!r} has no key with the list that a joined column is by.",
        hint="Give the column a key with the same domain as the requester's.",
    )


def _check_values(one: JoinedColumn, card: Card) -> None:
    """Whether a joined column has a value for every key and one for all others: a row's key then always finds its value."""
    keys = 1
    for digest in one.domains:
        key = resolve_key(card, key_with(digest, card))
        assert key is not None
        keys *= len(key.parts[0].domain)
    if len(one.values) != keys + 1:
        raise InvalidInput(
            f"the plan has {len(one.values):,} values of {one.name!r} for {keys:,} keys; it needs one more than keys.",
            hint="Ask whoever prepared the plan for a sound one.",
        )


def _identity(plan: TrainingPlan, round: int, ledger: Ledger) -> bytes:
    """What a ledger knows a round by: it does not depend on the weights, so that there is one of it."""
    return ledger.fingerprint([b"round of training", plan.digest.encode(), str(round).encode()])


def _answered(
    plan: TrainingPlan, state: ModelState, trainer: Trainer, ledger: Ledger, *, simulated: bool
) -> Contribution | None:
    """What was contributed to this round before; None where it has not been charged yet."""
    identity = _identity(plan, state.round + 1, ledger)
    about = ledger.answered_for(trainer.dataset, identity)
    entry = ledger.find(trainer.dataset, identity)
    kept = _kept(ledger, entry) if entry is not None else None
    if about is not None and (about != state.digest or (kept is not None and kept.simulation != simulated)):
        raise LedgerConflict(
            f"round {state.round + 1} of this plan was answered for other weights.", hint="Every round is answered once."
        )
    return kept


def _check_consent(plan: TrainingPlan, trainer: Trainer, card: Card, ledger: Ledger, agreed: Budget | str | None) -> None:
    """Whether the trainer wants this: asked at the first round of a plan that it answers, before rows are read."""
    account = card.dataset.account or card.dataset.name
    if card.budget is None and ledger.account(account) is None:
        raise InvalidCard(
            f"the card of {trainer.dataset!r} has no cap, and nothing was released on the account {account!r} before.",
            hint='A plan of others does not set it: write [budget] cap = { epsilon = "...", delta = "..." } into the card.',
        )
    if changed := tuned_fields(card, account, ledger):
        raise InvalidInput(
            f"this card is another one than you have looked at your rows with ({', '.join(changed[:5])}).",
            hint="Train with the card that you looked at.",
        )
    rounds = range(1, plan.rounds + 1)
    if any(ledger.answered_for(trainer.dataset, _identity(plan, number, ledger)) for number in rounds):
        return
    cost = plan.budget
    if agreed is None:
        raise InvalidInput(
            f"the plan {plan.digest[:12]} costs {trainer.dataset!r} {cost} in all, and you have not agreed to it.",
            hint=f"Say --epsilon {cost.epsilon} --delta {cost.delta}, or --accept {plan.digest}.",
        )
    if isinstance(agreed, str):
        if agreed != plan.digest:
            raise InvalidInput(
                "you agreed to another plan than this one.", hint=f"Look at it with `federate show`; it is {plan.digest}."
            )
    elif cost.epsilon > agreed.epsilon or cost.delta > agreed.delta:
        raise InvalidInput(
            f"the plan costs {trainer.dataset!r} {cost} in all, more than the {agreed} that you agreed to.",
            hint="Ask for a cheaper plan, or agree to more.",
        )


def _recognise(ready: Prepared, charge: Charge, ledger: Ledger, tell: Callable[[str], None]) -> None:
    """Keep what the rows look like, as a release does, and tell the trainer what looks wrong with them."""
    found = aggregate(replace(ready.rows, key=None), ready.grid, order=1)
    samples = samples_in((ready,), ledger, found.rows)
    for doubt in doubts(ready, charge, ledger, found, samples, None):
        tell(doubt.text)
    ledger.remember(samples, account=charge.account)


def _request(plan: TrainingPlan, card: Card) -> ReleaseRequest:
    made = card_for(plan, card)
    keys = [*made.keys]
    neighbours = card.dataset.neighbours
    assert neighbours is not None
    names = tuple(column.name for column in (plan.target, *plan.columns))
    key = KEY if KEY in keys else keys[0] if keys else None
    return ReleaseRequest(made, plan.budget, neighbours, key=key, features=names)


def _scaled_rows(rows: Rows, plan: TrainingPlan) -> tuple[list[np.ndarray], np.ndarray]:
    """The model's columns and its target, row by row: clipped to their bounds, between -1 and 1; levels are 0 or 1."""
    grid = Grid(MAX_BITS, default_bound_squared(rows.columns))
    table = grid_rows(rows, grid)
    wanted = [f"f{i}" for i in range(len(rows.columns))] + [f"k{i}" for i in range(len(rows.key_parts))]
    fetched = rows.source.fetch(table.select(*wanted))
    own = [fetched.column(f"f{i}").to_numpy().astype(float) / grid.one for i in range(len(rows.columns))]
    joined = [_looked_up(one, rows, fetched) for one in plan.joined]
    return [*own[1:], *joined], own[0]


def _looked_up(one: JoinedColumn, rows: Rows, fetched: pa.Table) -> np.ndarray:
    """The joined value of every row, by its key; of a row with a key that is not listed, the last one."""
    assert rows.key is not None
    numbers = {part.domain.keys_digest: i for i, part in enumerate(rows.key.parts)}
    index = np.zeros(fetched.num_rows, np.int64)
    outside = np.zeros(fetched.num_rows, bool)
    for digest in one.domains:
        part = rows.key.parts[numbers[digest]]
        position = key_positions(fetched.column(f"k{numbers[digest]}"), part)
        outside |= position < 0
        index = index * len(part.domain) + np.maximum(position, 0)
    values = one.scaled()
    found: np.ndarray = values[np.where(outside, len(values) - 1, index)]
    return found


def _clipped(columns: list[np.ndarray], grid: Grid) -> np.ndarray:
    """Whole steps of the grid, no row longer than 1. The same as `grid.to_steps`, for columns that are in memory."""
    reach = clip_length(grid, columns=len(columns), card_features=len(columns))
    with np.errstate(all="ignore"):
        scaled = [column * float(grid.one) for column in columns]
        squared = np.zeros(len(columns[0]))
        for column in scaled:
            squared = squared + column * column
    # A row that is too long for a float, or has an entry that is no number, counts as zeros: that depends on it alone.
    finite = np.isfinite(squared)
    scaled, squared = [np.where(finite, column, 0.0) for column in scaled], np.where(finite, squared, 0.0)
    shrink = np.where(squared > reach * reach * (1 + 1e-12), reach / np.sqrt(np.maximum(squared, 1.0)), 1.0)
    steps = np.array([np.floor(column * shrink + 0.5) for column in scaled])
    # In whole numbers below 2^53, so exact; whatever floats did on the way here, it holds or nothing leaves.
    if steps.size and not float((steps * steps).sum(axis=0).max()) <= grid.norm_squared:  # nothing that is no number passes
        raise SaibotError("internal: a row left the clip longer than the bound; nothing was released. Please report this.")
    return steps


def _charge(ready: Prepared, terms: Plan, state: ModelState, identity: bytes, card: Card) -> Charge:
    """One round's price. A new account gets its cap from the card."""
    facts, budget = card.dataset, ready.request.budget
    epsilon = Decimal(f"{Spent.of(terms.events).epsilon_at(budget.delta):.6g}")
    return Charge(
        account=facts.account or facts.name,
        dataset=facts.name,
        neighbours=ready.request.neighbours,
        unit=facts.id,
        cap=card.budget.limit if card.budget else None,
        asked=Budget(epsilon, budget.delta),
        events=terms.events,
        source=ready.source,
        release=identity,
        rows_per_individual=facts.rows_per_individual,
        aside=card.budget.keys if card.budget else None,
        once_for=state.digest,
    )


def _kept(ledger: Ledger, entry: LedgerEntry) -> Contribution | None:
    """What a round bought before, if it is still there."""
    path = ledger.home / "rounds" / f"{entry.digest}.json"
    return Contribution.model_validate_json(path.read_bytes()) if path.is_file() else None
