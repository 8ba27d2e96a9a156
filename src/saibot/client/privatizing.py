"""Privatise a table in one call, for providers and for requesters alike."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from saibot.client.answers import Progress
from saibot.errors import InvalidInput
from saibot.home import data_folder
from saibot.privacy import Budget, Neighbours
from saibot.privacy.account import Charge
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, prepare, privatize, privatize_by_keys
from saibot.privatize.card import decimal_text
from saibot.privatize.charging import charges_of, recorded_share, release_identity
from saibot.privatize.checking import resolve
from saibot.privatize.read import TableLike
from saibot.sketch import Sketch

Note = Callable[[str], None]


CardLike = Card | dict[str, Any] | Path | str
"""A card, one as a plain document, or the path of one."""
Amount = str | int | float | Decimal
"""Of budget. A float stands for the decimal that it is written as."""


def read_card(card: CardLike) -> Card:
    if isinstance(card, dict):
        return Card.parse(card)
    return card if isinstance(card, Card) else Card.read(Path(card))


def budget_of(epsilon: Amount, delta: Amount) -> Budget:
    return Budget(decimal_text(epsilon), decimal_text(delta))


def open_ledger(ledger: Ledger | Path | str | None = None) -> Ledger:
    """The ledger that is given, in the folder that is given, or else this machine's own."""
    return ledger if isinstance(ledger, Ledger) else Ledger(data_folder() if ledger is None else Path(ledger))


def check_read(order: int) -> None:
    """Refuse moments that nobody would read."""
    if order > 2:
        raise InvalidInput(
            "no search, model or estimate reads moments beyond order 2, and they would be paid for all the same.",
            hint="Leave the order out: 2 is what every search needs.",
        )


def release_request(
    card: CardLike,
    *,
    epsilon: Amount,
    delta: Amount,
    key: str | None,
    features: tuple[str, ...] = (),
    neighbours: Neighbours | str | None = None,
    **options: Any,
) -> ReleaseRequest:
    """The request for a release. The neighbouring relation has no default: the card or the caller names it."""
    described = read_card(card)
    relation = neighbours or described.dataset.neighbours
    if relation is None:
        raise InvalidInput(
            "what is a neighbouring table? Neither the card nor the call says.",
            hint='Write neighbours = "replace-one" or "add-remove" into the card\'s [dataset] section.',
        )
    check_read(options.get("order", 2))
    return ReleaseRequest(described, budget_of(epsilon, delta), Neighbours(relation), key=key, features=features, **options)


def check_affordable(releases: Sequence[tuple[TableLike, ReleaseRequest]], ledger: Ledger) -> None:
    """Raise `BudgetExceeded` unless all of these releases can be paid together. Those bought before cost nothing."""
    charges: list[Charge] = []
    for table, request in releases:
        resolved = resolve(request)
        if request.new_version or ledger.find(request.card.dataset.name, release_identity(ledger, resolved)) is None:
            share, _ = recorded_share(table, request, ledger)
            charges += charges_of([prepare(table, request, ledger)], [resolved], ledger, share)
    ledger.check(*charges)


def privatised(
    table: TableLike,
    request: ReleaseRequest,
    ledger: Ledger,
    *,
    progress: Progress = lambda stage, part: None,
    note: Note | None = None,
) -> Sketch:
    """The sketch of a table, charged to the ledger. `note` gets sentences for the provider alone; the default warns."""
    released = privatize(table, request, ledger, progress=progress)
    for sentence in released.notes:
        (note or warn)(sentence)
    return released.sketch


def privatised_by_keys(
    table: TableLike,
    request: ReleaseRequest,
    keys: Sequence[str],
    ledger: Ledger,
    *,
    progress: Progress = lambda stage, part: None,
    note: Note | None = None,
) -> tuple[Sketch, ...]:
    """The sketches of a table by several keys, charged to the ledger as one release."""
    released = privatize_by_keys(table, request, keys, ledger, progress=progress)
    for sentence in released[0].notes:
        (note or warn)(sentence)
    return tuple(one.sketch for one in released)


class ProviderWarning(UserWarning):
    """A remark about the provider's own rows. It must not be sent to anybody."""


def warn(sentence: str) -> None:
    warnings.warn(sentence, ProviderWarning, stacklevel=4)
