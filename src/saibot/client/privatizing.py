"""Privatise a table in one call, for providers and for requesters alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from saibot.client.answers import Progress
from saibot.client.config import data_folder
from saibot.errors import InvalidInput
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.privatize.read import TableLike
from saibot.sketch import Sketch


def read_card(card: Card | Path | str) -> Card:
    return card if isinstance(card, Card) else Card.read(Path(card))


def open_ledger(ledger: Ledger | Path | str | None = None) -> Ledger:
    """The ledger that is given, in the folder that is given, or else this machine's own."""
    return ledger if isinstance(ledger, Ledger) else Ledger(data_folder() if ledger is None else Path(ledger))


def privatised(
    table: TableLike,
    card: Card | Path | str,
    ledger: Ledger,
    *,
    epsilon: str,
    delta: str,
    key: str | None,
    features: tuple[str, ...] = (),
    neighbours: Neighbours | str | None = None,
    progress: Progress = lambda stage, part: None,
    **options: Any,
) -> Sketch:
    """The sketch of a table, charged to the ledger. The neighbouring relation has no default: the card names it, or you."""
    described = read_card(card)
    relation = neighbours or described.dataset.neighbours
    if relation is None:
        raise InvalidInput(
            "what is a neighbouring table? Neither the card nor the call says.",
            hint='Write neighbours = "replace-one" or "add-remove" into the card\'s [dataset] section.',
        )
    request = ReleaseRequest(described, Budget(epsilon, delta), Neighbours(relation), key=key, features=features, **options)
    return privatize(table, request, ledger, progress=progress).sketch
