"""Public tables in one call: the exact sketches of a table that is no secret, one for each key of its card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from saibot.client.answers import Progress
from saibot.client.privatizing import Note, read_card
from saibot.errors import InvalidInput
from saibot.privacy.ledger import Ledger
from saibot.privatize.card import Card
from saibot.privatize.open_table import QUESTION, OpenLayout, OpenRequest, exact_sketch
from saibot.privatize.read import TableLike
from saibot.sketch import Sketch


def open_sketches(
    table: TableLike,
    card: Card | Path | str,
    ledger: Ledger,
    *,
    source: str,
    yes: bool,
    keys: Sequence[str] = (),
    features: Sequence[str] = (),
    layout: OpenLayout = "lookup",
    progress: Progress = lambda stage, part: None,
    note: Note = lambda sentence: None,
) -> list[Sketch]:
    """Exact sketches by these keys, or by every key of the card; one without a key where the card has none.

    `yes` says that anybody may see the table cell by cell. `note` gets sentences for the provider alone.
    """
    described = read_card(card)
    requests = [
        OpenRequest(described, source, key, tuple(features), layout) for key in keys or tuple(described.keys) or (None,)
    ]
    if not yes:
        raise InvalidInput(f"{QUESTION} Nobody has said that it is so; nothing was made.", hint="Say yes=True, or --yes.")
    made = [exact_sketch(table, request, ledger, progress=progress) for request in requests]
    for sentence in dict.fromkeys(sentence for one in made for sentence in one.notes):
        note(sentence)
    return [one.sketch for one in made]
