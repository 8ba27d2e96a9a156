"""A search's result handed over to those who agree to train together: the plan, and what its model predicts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from saibot.client.augmented import Augmented
from saibot.client.keys import places_of
from saibot.client.own_columns import OwnFeature
from saibot.client.tables import key_codes, numbers, read_columns
from saibot.client.values import looked_up
from saibot.errors import InvalidCard, InvalidInput
from saibot.federated.descent import ModelState, check_state
from saibot.federated.network import Family
from saibot.federated.training_plan import JoinedColumn, ModelColumn, TrainingPlan, check_document
from saibot.privacy import Budget
from saibot.privatize import Card
from saibot.privatize.read import TableLike
from saibot.privatize.schema import resolve_key
from saibot.privatize.training_round import card_for, key_with, trainer_of
from saibot.search.document import domain_listed
from saibot.search.key_maps import RequestKey
from saibot.wire import Dataset, NewColumn


def training_plan(
    found: Augmented,
    cards: Sequence[Card],
    budget: Budget,
    *,
    hidden: int = 0,
    rounds: int | None = None,
    family: Family = "gaussian",
    clip: float | None = None,
    seed: int = 0,
) -> TrainingPlan:
    """What the result chose, as a plan for those whose cards these are. The first card says what the columns mean.

    Joined columns are by their published, private values: everybody who trains joins them at home, and whoever reads the
    plan learns them (`not_public` names those that not everybody may see). The others are columns that everybody who trains
    has, with the same bounds and levels in every card.
    """
    if not cards:
        raise InvalidInput("nobody trains.", hint="Give the card of everyone who does with --card.")
    joined = [_joined(found, column) for column in found.result.columns]
    target, *columns = (_column(cards[0], name) for name in _names(found, cards[0]))
    width = sum(column.width for column in columns) + len(joined)
    usual = (1 + (width + hidden) / 2) / (2 if family == "binomial" else 1)
    document: dict[str, Any] = {
        "target": target,
        "columns": columns,
        "joined": joined,
        "family": family,
        "hidden": hidden,
        "seed": seed,
        "rounds": rounds or usual_rounds(hidden, family),
        "clip": clip or math.sqrt(usual),
        **budget.to_json(),
        "trainers": [trainer_of(card) for card in cards],
    }
    plan = check_document(TrainingPlan, document, "the training plan")
    for card in cards:
        card_for(plan, card)
        plan.round_plan(plan.trainer(card.dataset.name))
    return plan


def not_public(found: Augmented, listed: Iterable[Dataset]) -> list[str]:
    """Datasets that the result chose values of, and that a platform's list does not show to everybody."""
    public = {one.digest for one in listed if one.visibility == "public"}
    wanted = {column.dataset: {column.digest, *([column.via] if column.via else [])} for column in found.result.columns}
    return [name for name, digests in wanted.items() if not digests <= public]


def usual_rounds(hidden: int, family: Family) -> int:
    """Least squares is solved in one round. Logistic regression needs a few; hidden units gain little after four."""
    return 6 if family == "binomial" else 4 if hidden else 1


@dataclass(frozen=True)
class TrainedModel:
    """The model that a training has come to, for the rows of anybody with the plan's columns."""

    plan: TrainingPlan
    state: ModelState
    card: Card  # what the table calls the plan's columns and keys

    def __post_init__(self) -> None:
        check_state(self.plan, self.state)

    def predict(self, table: TableLike) -> np.ndarray:
        """The target expected for each row, in its original units; of a yes or no, its probability."""
        mean = self.plan.network.mean(self.columns(table), np.array(self.state.weights))
        if self.plan.target.bounds is None:
            return mean
        low, high = self.plan.target.bounds
        return (low + high) / 2 + (high - low) / 2 * mean

    def columns(self, table: TableLike) -> list[np.ndarray]:
        """What goes into the model, in its order: scaled columns of the table, then the joined ones."""
        own = [values for column in self.plan.columns for values in self._own(column, table)]
        return own + [self._joined(one, table) for one in self.plan.joined]

    def score(self, table: TableLike) -> float:
        """R2 on rows that have the target; at most 1, and below 0 where the mean would do better."""
        target = self.plan.target
        truth = OwnFeature(target.name, self._name(target), *(target.levels or ())).values(
            read_columns(table, [self._name(target)])
        )
        there = ~np.isnan(truth)
        left, spread = truth[there] - self.predict(table)[there], truth[there] - truth[there].mean()
        return float(1 - (left @ left) / max(spread @ spread, 1e-300))

    def _name(self, column: ModelColumn) -> str:
        own = self.card.features.get(column.name)
        return (own.column if own else None) or column.name

    def _own(self, column: ModelColumn, table: TableLike) -> list[np.ndarray]:
        name = self._name(column)
        rows = read_columns(table, [name])
        if column.levels is not None:
            return [OwnFeature(column.name, name, level).values(rows) for level in column.levels]
        assert column.bounds is not None
        low, high = column.bounds
        missing = column.missing if column.missing is not None else (low + high) / 2
        values = numbers(rows, name)
        values = np.clip(np.where(np.isnan(values), missing, values), low, high)
        return [(values - (low + high) / 2) / ((high - low) / 2)]

    def _joined(self, one: JoinedColumn, table: TableLike) -> np.ndarray:
        index, outside = np.int64(0), np.bool_(False)
        for digest in one.domains:
            key = resolve_key(self.card, key_with(digest, self.card))
            assert key is not None
            part = key.parts[0]
            codes, texts = key_codes(read_columns(table, [part.column], text=[part.column]), part.column)
            places = places_of(texts, part.domain)[codes]
            outside = outside | (places >= len(part.domain))
            index = index * len(part.domain) + places
        values = one.scaled()
        found: np.ndarray = values[np.where(outside, len(values) - 1, index)]
        return found


# ------------------------------------------------------------------------------------------------ inside


def _names(found: Augmented, card: Card) -> list[str]:
    """The target and the own features of the search, by their names in the card."""
    target = found.result.target.partition("=")[0]
    model = found.result.model
    own = [column.name.partition("=")[0] for column in model.own] if model else [name for name in card.features]
    return [target, *dict.fromkeys(name for name in own if name != target)]


def _column(card: Card, name: str) -> ModelColumn:
    facts = card.features.get(name)
    if facts is None:
        raise InvalidCard(
            f"the card of {card.dataset.name!r} has no feature {name!r}, which the search used.",
            hint="Describe it in the first card: its bounds or levels are those of the training.",
        )
    if facts.log or not (facts.levels or isinstance(facts.bounds, tuple)):
        raise InvalidCard(
            f"feature {name!r} needs public bounds or levels for a training.", hint="Write them into the first card."
        )
    bounds = facts.bounds if isinstance(facts.bounds, tuple) else None
    return ModelColumn(name=name, bounds=bounds, levels=facts.levels, missing=facts.missing, unit=facts.unit)


def _joined(found: Augmented, column: NewColumn) -> JoinedColumn:
    """A chosen column's value for every key, whoever has it."""
    keys = {key.name: key for key in found.result.keys}
    parts = [keys[part.part] for part in column.key]
    source = found.source
    problem: InvalidInput | None = None
    for domains in itertools.product(*(map(domain_listed, key.domains) for key in parts)):
        key = RequestKey.product([(part.name, domain) for part, domain in zip(parts, domains, strict=True)])
        try:
            values = looked_up(source, column, key).values
        except InvalidInput as refused:  # the column is by another of the lists that the key goes by
            problem = refused
            continue
        return JoinedColumn(
            name=column.name,
            domains=tuple(domain.keys_digest for domain in domains),
            parts=tuple(part.name for part in parts),
            values=tuple(float(f"{value:.12g}") for value in values),
        )
    raise problem or InvalidInput(f"{column.name} is by no key of the result.")
