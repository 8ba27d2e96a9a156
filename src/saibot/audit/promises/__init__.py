"""Promises about histories and wires, which no single release can show: each a small check, tried on the real thing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from saibot.audit.promises.replay import replay
from saibot.audit.promises.template import template
from saibot.audit.promises.verdict import Verdict
from saibot.audit.promises.wire import wire

CHECKS: dict[str, Callable[[], Iterable[Verdict]]] = {
    "replay": replay,
    "wire": wire,
    "template": template,
}

__all__ = ["CHECKS", "Verdict", "all_promises"]


def all_promises(tell: Callable[[str, float], None] = lambda stage, part: None) -> list[Verdict]:
    """Try every promise."""
    found: list[Verdict] = []
    for number, (name, check) in enumerate(CHECKS.items()):
        tell(f"trying promises: {name}", number / len(CHECKS))
        found += check()
    return found
