"""Sound sketch files with hostile numbers: each is refused, or it can be profiled, packed and searched like any other.

    python -m tests.campaigns.hostile_numbers --count 100000 --state FOLDER

goes on where it was stopped: FOLDER/done.json says how many were tried, with what outcome. Number N is always the same.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from saibot.errors import SaibotError
from saibot.estimate.profile import profile
from saibot.platform.errors import Unusable
from saibot.platform.validation import accepted_sketch
from saibot.privacy import Budget
from saibot.privacy.mechanisms import make_plan
from saibot.search import search
from saibot.search.corpus import Corpus
from saibot.search.document import result_of
from saibot.search.from_sketches import search_request
from saibot.search.learning import lessons
from saibot.sketch import Header, LevelTable, Sketch, read_sketch, write_sketch
from saibot.sketch.allowed import largest_in
from saibot.wire import SearchOptions
from tests.support.forging import NAMES, content_of

TOGETHER = 100  # sketches in one corpus
NUMBERS = (
    1e308,
    1e300,
    1e200,
    1e154,
    1e77,
    1e38,
    3.4e38,
    1e30,
    2.0**63,
    2.0**53,
    1e15,
    1e9,
    1.0,
    0.0,
    1e-30,
    1e-154,
    1e-300,
    5e-324,
)
DECIMALS = ("1e-30", "1e-20", "1e-9", "1e-3", "1", "7", "1e3", "1e9", "1e20", "1e30")
OPTIONS = (
    SearchOptions(),
    SearchOptions(rank="potential", steps=2),
    SearchOptions(rank="usable", shared=True),
    SearchOptions(join="many-to-many", steps=2),
    SearchOptions(join="many-to-many-unbiased", steps=2),
    SearchOptions(whole_datasets=True, hops=True, steps=2),
    SearchOptions(strategy="exhaustive", steps=2),
    SearchOptions(joins=False),
)
REQUESTS = (("lookup-levels", "delay"), ("semiring-composite", "delay"), ("union-laplace", "delay"))


def hostile_sketch(number: int) -> bytes | None:
    """The file of hostile sketch `number`, the digest its own; None where the numbers cannot be written at all."""
    rng = random.Random(number)
    sketch = read_sketch(content_of(NAMES[number % len(NAMES)]))
    facts = sketch.header.dataset.model_copy(update={"name": f"hostile-{number}"})
    sketch = replace(sketch, header=sketch.header.model_copy(update={"dataset": facts}))
    for _ in range(rng.choice((1, 1, 2, 3))):
        sketch = rng.choice(CHANGES)(sketch, rng)
    try:
        return write_sketch(sketch.sealed())
    except (ValueError, SaibotError):
        return None


def try_batch(first: int, count: int) -> Counter[str]:
    """Outcomes of so many sketches. Whatever an accepted one breaks raises."""
    outcomes: Counter[str] = Counter()
    accepted: list[tuple[int, Sketch]] = []
    for number in range(first, first + count):
        content = hostile_sketch(number)
        if content is None:
            outcomes["cannot be written"] += 1
            continue
        try:
            sketch, _ = accepted_sketch(content, accept_unsafe=True)
        except Unusable:
            outcomes["refused"] += 1
            continue
        outcomes["accepted"] += 1
        accepted.append((number, sketch))
    for number, sketch in accepted:
        try:
            _strict_json(profile(sketch, draws=50).to_json())
        except Exception as problem:
            raise AssertionError(f"the profile of hostile sketch {number}: {problem!r}") from problem
    _search_all(accepted, outcomes)
    return outcomes


def _search_all(accepted: list[tuple[int, Sketch]], outcomes: Counter[str]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="saibot-hostile-"))
    try:
        corpus = Corpus.create(folder / "corpus")
        outcomes["not packed"] += len(corpus.add([sketch for _, sketch in accepted]))
        if len(accepted) > 20:
            providers = {sketch.digest: f"provider-{number % 7}" for number, sketch in accepted}
            for prepared in lessons(corpus, providers=providers, teachers=set(providers)):
                corpus.install(prepared)
        options = OPTIONS[accepted[0][0] // TOGETHER % len(OPTIONS)] if accepted else OPTIONS[0]
        for name, target in REQUESTS:
            sketch = read_sketch(content_of(name))
            if options.join != "lookup" and name != "semiring-composite":
                continue
            request = search_request(sketch, target=target)
            found = search(request, corpus, options)
            _strict_json(json.loads(result_of(found, request, at_home=False).text()))
            outcomes["searches"] += 1
    except Exception as problem:
        if len(accepted) > 1:  # name the one that did it
            middle = len(accepted) // 2
            _search_all(accepted[:middle], Counter())
            _search_all(accepted[middle:], Counter())
        raise AssertionError(
            f"searching with hostile sketches {[number for number, _ in accepted]}: {problem!r}"
        ) from problem
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _strict_json(document: Any) -> None:
    json.dumps(document, allow_nan=False)


# ------------------------------------------------------------------------------------------------ changes


def _number(rng: random.Random) -> float:
    return rng.choice(NUMBERS) * rng.choice((1, 1, -1)) * rng.choice((1.0, 1.0, 0.5, 1.7))


def _values(sketch: Sketch, rng: random.Random) -> Sketch:
    """Some, or all, numbers of one level become hostile ones: all the same, or each another."""
    if not sketch.levels:
        return _whole(sketch, rng)
    place = rng.randrange(len(sketch.levels))
    table = sketch.levels[place]
    values = np.array(table.values)
    columns = slice(None) if rng.random() < 0.3 else slice(column := rng.randrange(values.shape[1]), column + 1)
    rows = np.array([rng.random() < rng.choice((0.1, 1.0)) for _ in range(len(values))])
    kind = rng.random()
    if kind < 0.4:
        values[rows, columns] = _number(rng)
    elif kind < 0.7:
        values[rows, columns] *= _number(rng)
    else:
        values[rows, columns] = np.array([_number(rng) for _ in range(int(rows.sum()))])[:, None]
    with np.errstate(all="ignore"):
        values = np.nan_to_num(values, posinf=1.7e308, neginf=-1.7e308)
    levels = list(sketch.levels)
    levels[place] = LevelTable(table.keys, values)
    return replace(sketch, levels=tuple(levels))


def _whole(sketch: Sketch, rng: random.Random) -> Sketch:
    blocks = list(sketch.header.global_blocks)
    if not blocks:
        return sketch
    place = rng.randrange(len(blocks))
    values = [_number(rng) if rng.random() < 0.5 else value for value in blocks[place].values]
    blocks[place] = blocks[place].model_copy(update={"values": tuple(values)})
    return _with(sketch, global_blocks=tuple(blocks))


def _rows(sketch: Sketch, rng: random.Random) -> Sketch:
    """Another public row count, in the plan too; of an open sketch the counts themselves."""
    rows = int(rng.choice((1, 2, 10**6, 10**9, 2**50, 2**53, 2**62)))
    if sketch.header.rows is None:
        return sketch
    if sketch.header.open:
        factor = rows / max(sketch.header.rows, 1)
        levels = tuple(LevelTable(table.keys, np.floor(table.values * factor)) for table in sketch.levels)
        total = int(np.clip(levels[0].values[:, 0].sum(), 0, 2**62))
        return _with(replace(sketch, levels=levels), invariants={"rows": total})
    return _planned(_with(sketch, invariants={"rows": rows}), rows=rows)


def _budget(sketch: Sketch, rng: random.Random) -> Sketch:
    if sketch.header.open:
        return sketch
    epsilon, delta = (
        rng.choice(DECIMALS),
        "0" if sketch.header.budget["delta"] == "0" else rng.choice(("1e-30", "1e-6", "0.9")),
    )
    changed = _with(sketch, budget={"epsilon": epsilon, "delta": delta}, account=None, spent=None)
    return _planned(changed, budget=Budget(epsilon, delta))


def _bound(sketch: Sketch, rng: random.Random) -> Sketch:
    squared = rng.choice(DECIMALS)
    changed = _with(sketch, bound_squared=squared)
    return changed if sketch.header.open else _planned(changed, bound_squared=Decimal(squared))


def _feature(sketch: Sketch, rng: random.Random) -> Sketch:
    features = list(sketch.header.features)
    place = rng.randrange(len(features))
    ends = sorted((_number(rng), _number(rng)))
    features[place] = features[place].model_copy(update={"lower": ends[0], "upper": ends[1]})
    return _with(sketch, features=tuple(features))


def _at_the_limit(sketch: Sketch, rng: random.Random) -> Sketch:
    """The largest numbers that are accepted, of either sign, in one block or in all."""
    try:
        blocks = [block for block in sketch.blocks if rng.random() < 0.7]
        limits = [largest_in(sketch, block) * 0.999 for block in blocks]
    except (SaibotError, ArithmeticError):
        return sketch
    signs = (1, -1) if rng.random() < 0.5 else (1,)
    levels, whole = [np.array(table.values) for table in sketch.levels], {b.order: b for b in sketch.header.global_blocks}
    for block, limit in zip(blocks, limits, strict=True):
        if block.scope == "key":
            place = levels[block.level][:, sketch.key_basis.slice(block.order)]
            place[...] = np.array([limit * rng.choice(signs) for _ in range(place.size)]).reshape(place.shape)
        elif block.order in whole:
            values = tuple(limit * rng.choice(signs) for _ in whole[block.order].values)
            whole[block.order] = whole[block.order].model_copy(update={"values": values})
    tables = zip(sketch.levels, levels, strict=True)
    return _with(
        replace(sketch, levels=tuple(LevelTable(t.keys, v) for t, v in tables)), global_blocks=tuple(whole.values())
    )


def _grid(sketch: Sketch, rng: random.Random) -> Sketch:
    return _with(sketch, grid_bits=rng.randint(1, 15))


CHANGES: list[Callable[[Sketch, random.Random], Sketch]] = [
    _values,
    _values,
    _values,
    _whole,
    _whole,
    _rows,
    _budget,
    _bound,
    _feature,
    _grid,
    _at_the_limit,
    _at_the_limit,
]


def _with(sketch: Sketch, **changed: Any) -> Sketch:
    if sketch.header.version == 1:
        changed = {name: value for name, value in changed.items() if name not in ("account", "spent")}
    return Sketch(Header.model_construct(**(dict(sketch.header) | changed)), sketch.levels)


def _planned(sketch: Sketch, **changed: Any) -> Sketch:
    """With the plan that belongs to a changed request, where there is one."""
    from saibot.privacy.mechanisms import PlanRequest

    try:
        request = replace(PlanRequest.from_json(sketch.header.plan["request"]), **changed)
        return _with(sketch, plan=make_plan(request).to_json())
    except (SaibotError, ArithmeticError, ValueError):
        return sketch


# ------------------------------------------------------------------------------------------------ the long form


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--count", type=int, default=100_000)
    asked.add_argument("--state", type=Path, required=True)
    chosen = asked.parse_args()
    chosen.state.mkdir(parents=True, exist_ok=True)
    file = chosen.state / "done.json"
    done = Counter(json.loads(file.read_text())) if file.exists() else Counter[str]()
    warnings.simplefilter("ignore")
    while done["tried"] < chosen.count:
        outcomes = try_batch(done["tried"], min(TOGETHER, chosen.count - done["tried"]))
        done.update(outcomes)
        done["tried"] += min(TOGETHER, chosen.count - done["tried"])
        file.write_text(json.dumps(done))
        print(dict(done), file=sys.stderr)
    print(json.dumps(done))


if __name__ == "__main__":
    main()
