"""Whether a card was changed after its rows had been looked at, and whether what changed was paid for.

A provider may look at what rows say about a card. If another card of the same account is released afterwards, its provider
may have chosen it by the rows. That is `tuned`, unless every field that changed was bought: bounds that are bought now, a
component of all features, whose direction is bought (how many are kept is not), and the keys, where their coverage had been
bought for the card that was looked at. What a card says in words, its name and its cap are nobody's rows and may change.
"""

from __future__ import annotations

import json

from saibot.privacy.ledger import Ledger
from saibot.privacy.looks import Looks
from saibot.privatize.card import BoughtBounds, Card
from saibot.privatize.doubts import Doubt

_WORDS = ("name", "account", "title", "description", "individual")


def note_look(card: Card, account: str, ledger: Ledger) -> None:
    """Write down, before anything is shown, that rows are looked at with this card."""
    looks = Looks(ledger)
    looks.note(account, looks.hashed(_fields(card), _keys(card)))


def note_coverage(card: Card, account: str, ledger: Ledger) -> None:
    looks = Looks(ledger)
    looks.note_paid(account, looks.hash(_keys(card)))


def tuned_fields(card: Card, account: str, ledger: Ledger) -> tuple[str, ...]:
    """What is other in this card than in one that was looked at, unpaid; nothing where it was not tuned."""
    looks = Looks(ledger)
    own, keys = _fields(card), looks.hash(_keys(card))
    paid = set(looks.paid(account))
    changed: dict[str, None] = {}
    for look in looks.of(account):
        names = {looks.hash(name): name for name in own}
        for hash in dict.fromkeys([*names, *look.fields]):
            name = names.get(hash)
            if name is None:
                changed["a field that it no longer has"] = None
            elif look.fields.get(hash) != looks.hash(own[name]) and not _bought(card, name):
                changed[name] = None
        if look.keys != keys and look.keys not in paid:
            changed["keys"] = None
    return tuple(changed)


def tuning_doubt(changed: tuple[str, ...]) -> Doubt:
    """For the provider, before the charge."""
    text = (
        f"this card is another one than you have looked at your rows with ({', '.join(changed[:5])}). Its sketch would say "
        "that it is tuned, and platforms refuse it. Release the card that you looked at, or buy what you changed."
    )
    return Doubt(text, wasteful=True)


def _fields(card: Card) -> dict[str, str]:
    """Every field but those of keys, by its place in the card, as text."""
    document = card.document()
    places: dict[str, object] = {
        f"dataset.{name}": value for name, value in document["dataset"].items() if name not in _WORDS
    }
    for feature, facts in document["features"].items():
        places |= {f"features.{feature}.{name}": value for name, value in facts.items() if name != "unit"}
    places |= {f"component.{name}": value for name, value in document.get("component", {}).items()}
    return {place: json.dumps(value, sort_keys=True) for place, value in places.items()}


def _keys(card: Card) -> str:
    return json.dumps(card.document().get("keys", {}), sort_keys=True)


def _bought(card: Card, place: str) -> bool:
    section, _, rest = place.partition(".")
    if section == "features":
        name, _, field = rest.rpartition(".")
        return field == "bounds" and isinstance(card.features[name].bounds, BoughtBounds)
    if section != "component" or rest == "keep":
        return False
    return card.component is not None and set(card.component.of) == set(card.features)
