"""What the augmentation is worth to an ordinary model: scikit-learn's linear regression on JetBlue's real rows.

A linear model, because a deeper one would tell the days apart by their looked-up values and learn JetBlue's own delays of
each day by heart. It could do that from the calendar alone; what others know would get the credit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from saibot.client import Augmented
from saibot.demo.flights import Party
from saibot.errors import SaibotError
from saibot.extras import how_to_install
from saibot.privatize import Card
from saibot.privatize.split import SplitFiles
from saibot.wire import NewColumn


@dataclass(frozen=True)
class HeldOutScores:
    """R2 on JetBlue's held-out flights. What is not private needs everybody's raw rows, which no real party has."""

    base: float
    augmented: float
    same_columns: float  # the chosen columns without noise: not private
    nonprivate: float  # every table by every key without noise: not private
    exact_columns: int
    train_rows: int
    test_rows: int


def score(
    parts: SplitFiles, found: Augmented, providers: Sequence[Party], *, target: str, own: Sequence[str]
) -> HeldOutScores:
    """Train on the training part, judge on the held-out part: own features, with what was found, and the ceiling."""
    import pandas as pd

    train, test = (pd.read_parquet(path).dropna(subset=[target]) for path in (parts.train, parts.test))
    wider = [found.augment(rows) for rows in (train, test)]
    exact = exact_values(providers, [train, test])
    chosen = [_exact_name(column) for column in found.result.columns]
    return HeldOutScores(
        base=_held_out_r2(wider, own, target),
        augmented=_held_out_r2(wider, [*own, *found.columns], target),
        same_columns=_held_out_r2(exact, [*own, *chosen], target),
        nonprivate=_held_out_r2(exact, [*own, *exact[0].columns.difference(train.columns)], target),
        exact_columns=len(exact[0].columns.difference(train.columns)),
        train_rows=len(train),
        test_rows=len(test),
    )


def exact_values(providers: Sequence[Party], tables: Sequence[Any]) -> list[Any]:
    """NOT PRIVATE. The rows with every provider's true mean by every one of its keys: what nobody may have."""
    import pandas as pd

    wider = list(tables)
    for party in providers:
        card, rows = Card.read(party.card), pd.read_parquet(party.table)
        for name in party.features:
            facts = card.features[name]
            assert isinstance(facts.bounds, tuple)
            lower, upper = facts.bounds
            missing = facts.missing if facts.missing is not None else (lower + upper) / 2
            rows[name] = rows[name].fillna(missing).clip(lower, upper)
        for key in party.keys:
            on = list(card.keys[key].parts or (key,))
            means = rows.groupby(on)[list(party.features)].mean()
            means.columns = [f"{card.dataset.name}.{name} by {', '.join(on)}" for name in party.features]
            wider = [table.join(means, on=on).fillna(means.mean()) for table in wider]
    return wider


def _exact_name(column: NewColumn) -> str:
    on = ", ".join(part.part for part in column.key)
    return f"{column.dataset}.{column.feature} by {on}"


def _held_out_r2(tables: Sequence[Any], columns: Sequence[str], target: str) -> float:
    try:
        from sklearn.linear_model import LinearRegression
    except ImportError:
        raise SaibotError("the demo trains a model with scikit-learn.", hint=how_to_install("demo")) from None
    train, test = tables
    fitted = LinearRegression().fit(train[list(columns)], train[target])
    return float(fitted.score(test[list(columns)], test[target]))
