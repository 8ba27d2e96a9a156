"""Sketches of honest tables, and what somebody makes of them who copies or makes numbers up."""

from __future__ import annotations

import itertools
import tempfile
import zlib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.sketch import LevelTable, Sketch
from saibot.sketch.header import GlobalBlock

PLACES = [f"P{i:02d}" for i in range(40)]


def card_of_places(name: str, features: tuple[str, ...] = ("level",)) -> Card:
    return Card.parse({
        "dataset": {"name": name, "title": f"What {name} knows", "individual": "one receipt", "max_rows": 9000},
        "budget": {"cap": {"epsilon": "1000", "delta": "1e-5"}},
        "features": {feature: {"bounds": [0, 100]} for feature in features},
        "keys": {"place": {"column": "place", "domain": {"values": PLACES, "id": "places"}}},
    })  # fmt: skip


@cache
def honest_sketch(
    name: str, seed: int = 1, *, epsilon: str = "5", rows: int = 4000, features: tuple[str, ...] = ("level",), **options: Any
) -> Sketch:
    """A table by place, with real noise."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, len(PLACES), rows)
    columns = {
        feature: np.clip(rng.uniform(20, 80, len(PLACES))[place] + rng.normal(0, 10, rows), 0, 100) for feature in features
    }
    frame = pd.DataFrame({"place": np.array(PLACES)[place]} | columns)
    terms = {"key": "place", "neighbours": Neighbours.REPLACE_ONE} | options
    with tempfile.TemporaryDirectory() as home:
        request = ReleaseRequest(card_of_places(name, features), Budget(epsilon, "1e-6"), **terms)
        return privatize(frame, request, Ledger(Path(home))).sketch


def renamed(sketch: Sketch, name: str, **changes: Any) -> Sketch:
    """The same numbers under another name, as somebody would publish them who has copied them."""
    facts = sketch.header.dataset.model_copy(update={"name": name, "title": "Mine", "description": ""})
    changed = {"dataset": facts, "signature": None, "digest": None, "created": "2020-01-01"} | changes
    return replace(sketch, header=sketch.header.model_copy(update=changed)).sealed()


_draws = itertools.count(1)


def drawn_anew(sketch: Sketch, mark: str | None = None) -> Sketch:
    """The same sketch but for the last digits of one number: another release, as far as anybody can see.

    One that has not been seen yet, or the one that goes with a mark.
    """
    last = next(_draws) * 2.0**-36 if mark is None else zlib.crc32(mark.encode()) * 2.0**-44
    if sketch.levels:
        values = sketch.levels[0].values.copy()
        values[0, 0] += last
        return with_numbers(sketch, values)
    return with_numbers(sketch, order1=np.array(sketch.whole(1)) + last)


def with_numbers(sketch: Sketch, values: np.ndarray | None = None, **blocks: np.ndarray) -> Sketch:
    """The same header over other numbers: those of the finest keys, and `order1`, `order2` of the whole table."""
    header = sketch.header
    made = tuple(
        GlobalBlock(order=block.order, values=tuple(map(float, blocks.get(f"order{block.order}", np.array(block.values)))))
        for block in header.global_blocks
    )
    levels = sketch.levels
    if values is not None:
        levels = (LevelTable(levels[0].keys, values), *levels[1:])
    header = header.model_copy(update={"global_blocks": made, "digest": None, "signature": None})
    changed = Sketch(header, levels)
    return changed.sealed()


def fabricated(name: str, *, features: int, rows: int, seed: int = 0, epsilon: str = "5") -> Sketch:
    """Random numbers under a sound header that claims any number of rows: no table was ever there."""
    names = tuple(f"f{i:03d}" for i in range(features))
    template = honest_sketch(f"template-{features}", 9, epsilon=epsilon, features=names)
    rng = np.random.default_rng(seed)
    keys = len(template.levels[0])
    counts = np.full(keys, rows / keys)
    counts[-1] = rows - counts[:-1].sum()
    means = rng.uniform(-0.8, 0.8, (keys, features))
    noise = [template.sigma("key", 0) or 0.0, template.sigma("key", 1) or 0.0]
    values = np.column_stack([counts, counts[:, None] * means])
    values[:, :1] += rng.normal(0, noise[0], (keys, 1))
    values[:, 1:] += rng.normal(0, noise[1], (keys, features))
    sums = (counts[:, None] * means).sum(axis=0)
    upper = np.triu_indices(features)
    squares = np.einsum("k,ki,kj->ij", counts, means, means) + np.diag(np.full(features, rows * 0.01))
    header = template.header
    plan = header.plan | {"request": header.plan["request"] | {"rows": rows}}
    facts = header.dataset.model_copy(update={"name": name})
    changed = {"dataset": facts, "plan": plan, "invariants": {"rows": rows}}
    lying = replace(template, header=header.model_copy(update=changed))
    return with_numbers(lying, values, order1=sums, order2=squares[upper])
