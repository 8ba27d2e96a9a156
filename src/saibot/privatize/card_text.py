"""A card as the TOML that `Card.read` reads: what a guided provider finds beside the table, to keep and to edit."""

from __future__ import annotations

import json
import re
from typing import Any

from saibot.privatize.card import Card


def card_text(card: Card) -> str:
    """The card's own fields in its own order; what has its default is left out."""
    document = card.document()
    lines = ["# Every public fact about this table. What stands here becomes public, but for columns, id and [budget]."]
    for section, facts in document.items():
        named = section in ("features", "keys")
        for name, inner in facts.items() if named else ((None, facts),):
            lines += ["", f"[{section}.{toml_key(name)}]" if name is not None else f"[{section}]"]
            lines += [f"{toml_key(field)} = {_value(value)}" for field, value in inner.items()]
    return "\n".join(lines) + "\n"


def toml_text(text: str) -> str:
    """A TOML string on one line, whatever is in it: JSON's are that, but for one control character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_text(name)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return toml_text(value)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{toml_key(name)} = {_value(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)
