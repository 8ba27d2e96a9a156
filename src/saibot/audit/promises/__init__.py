"""Promises about histories and wires, which no single release can show: each a small check, tried on the real thing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from saibot.audit.promises.accounts import known_rows, split_accounting, unit_of_privacy
from saibot.audit.promises.replay import replays_alike
from saibot.audit.promises.template import template_has_no_cells
from saibot.audit.promises.verdict import Verdict
from saibot.audit.promises.wire import wire_is_silent

CHECKS: dict[str, Callable[[], Iterable[Verdict]]] = {
    "replay": replays_alike,
    "split accounting": split_accounting,
    "known rows": known_rows,
    "unit of privacy": unit_of_privacy,
    "wire": wire_is_silent,
    "template": template_has_no_cells,
}

__all__ = ["CHECKS", "Verdict", "all_promises"]


def all_promises(tell: Callable[[str, float], None] = lambda stage, part: None) -> list[Verdict]:
    """Try every promise."""
    found: list[Verdict] = []
    for number, (name, check) in enumerate(CHECKS.items()):
        tell(f"trying promises: {name}", number / len(CHECKS))
        found += check()
    return found
