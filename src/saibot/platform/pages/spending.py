"""What several releases about one table add up to, as far as this platform has seen them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, localcontext

from saibot.privacy.budget import EXACT, plain


def spent(budgets: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Basic composition: epsilons add, deltas add. The provider's own ledger adds Gaussian releases up more tightly; it also
    knows of releases that were never published. This bound holds for whatever the published sketches hold."""
    epsilon = delta = Decimal(0)
    with localcontext(EXACT):
        for budget in budgets:
            epsilon += Decimal(budget["epsilon"])
            delta += Decimal(budget["delta"])
    return {"epsilon": plain(epsilon), "delta": plain(delta)}
