"""Real releases, file to file: two neighbouring tables are told apart by what is written into their sketches.

Each release is a whole one, with a ledger of its own, read back from the bytes of its file. What tells the tables apart
best is the likelihood ratio; how well it does is estimated as the distance of its two means in units of its spread. For
Gaussian noise that is mu. For Laplace noise the same number is compared with what the claimed law gives for the same two
tables.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from saibot.audit.cases import Case, tight_cases
from saibot.audit.cells import CATEGORICAL
from saibot.audit.likelihood_ratio import audited_noise, log_ratio
from saibot.audit.sources import SOURCES, SourceKind
from saibot.audit.worst_pairs import exact_vector, noise_vector
from saibot.privacy import Budget
from saibot.privacy.ledger import Ledger
from saibot.privacy.mechanisms import DEFAULT, Plan
from saibot.privatize import privatize
from saibot.privatize.aggregate import aggregate
from saibot.privatize.checking import prepare
from saibot.privatize.noise import NoiseSource
from saibot.sketch import Sketch, read_sketch

DEVIATES = 4.5  # of the interval: a true claim is called broken once in 300,000 tries
# High: an attack has power only where there is something to find. Laplace noise tells less and less of it beyond.
EPSILON = {"gaussian": "60", "laplace": "6"}


@dataclass(frozen=True)
class NoisyFinding:
    """What a pair's releases claim and what they show. `broken`: even the lower end of the interval is above the claim."""

    name: str
    source: str
    claim: float
    estimate: float
    lower: float
    upper: float
    releases: int

    @property
    def broken(self) -> bool:
        return self.lower > self.claim

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "source": self.source,
            "claim": self.claim,
            "estimate": self.estimate,
            "interval": [self.lower, self.upper],
            "releases": self.releases,
            "verdict": "BROKEN" if self.broken else "not disproved",
        }


@dataclass(frozen=True)
class NoisyCase:
    """A case in one form; where it has more than two versions, the two that are farthest apart are attacked."""

    name: str
    case: Case
    source: str

    @property
    def kind(self) -> SourceKind:
        return next(source for source in SOURCES if source.name == self.source)


def noisy_cases() -> list[NoisyCase]:
    """The tightest pair of every mechanism, layout and law, and pairs in which one odd cell could touch all others."""
    cases = [NoisyCase(f"{case.name}, {_law(case)}", _lavish(case), "csv") for case in tight_cases()]
    return [*_nasty(), *cases]


def _nasty() -> Iterable[NoisyCase]:
    """One mechanism on one column of levels, seven people alike, and somebody whose cell is of another kind."""
    base = next(case for case in tight_cases() if case.asked["mechanism"] == DEFAULT and case.asked["key"] is None)
    odd = {
        "a missing cell among whole numbers": ("pandas", CATEGORICAL[0], 2, None),
        "a half among whole numbers": ("parquet by arrow", CATEGORICAL[0], 2, 1.5),
        "a missing cell, written by pandas": ("csv by pandas", CATEGORICAL[0], 2, None),
        "a time among dates": (
            "csv by pandas, times",
            CATEGORICAL[3],
            CATEGORICAL[3].usual[1],
            datetime(2024, 1, 5, 12, 30),
        ),
    }
    for name, (source, kind, usual, strange) in odd.items():
        case = replace(
            base,
            columns={"f0": kind},
            card=base.card | {"features": {"f0": dict(kind.facts)}},
            others=({"f0": kind.usual[0]},) * 7,
            versions=(({"f0": usual},), ({"f0": strange},)),
        )
        yield NoisyCase(name, _lavish(case), source)


def _law(case: Case) -> str:
    return "Laplace" if case.budget.pure else "Gaussian"


def _lavish(case: Case) -> Case:
    epsilon = EPSILON["laplace" if case.budget.pure else "gaussian"]
    card = case.card | {"budget": {"cap": {"epsilon": "1000", "delta": str(case.budget.delta)}}}
    return replace(case, budget=Budget(epsilon, case.budget.delta), card=card)


def audit_releases(
    cases: list[NoisyCase],
    *,
    releases: int,
    noise_factor: float = 1.0,
    workers: int = 1,
    tell: Callable[[str, float], None] = lambda stage, part: None,
) -> list[NoisyFinding]:
    """Attack every case with so many releases of each table."""
    found = []
    if workers == 1:
        for number, case in enumerate(cases):
            tell(f"releasing: {case.name}", number / len(cases))
            found.append(attacked(case, releases, noise_factor))
        return found
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(attacked, case, releases, noise_factor) for case in cases]
        for number, (case, future) in enumerate(zip(cases, waiting, strict=True)):
            tell(f"releasing: {case.name}", number / len(cases))
            found.append(future.result())
    return found


def attacked(asked: NoisyCase, releases: int, noise_factor: float = 1.0) -> NoisyFinding:
    """Release both tables many times, and estimate how far apart what is written about them lies."""
    noise = audited_noise(noise_factor)
    with tempfile.TemporaryDirectory(prefix="saibot-audit-") as folder:
        bench = _Release(Path(folder), asked.case, asked.kind)
        one, other = bench.farthest()
        (before, spread, plan), (after, _, _) = bench.exact(one), bench.exact(other)
        drawn = [np.array([bench.drawn(version, plan, noise) for _ in range(releases)]) for version in (one, other)]
    claim = plan.mu if plan.mu is not None else _claimed(before, after, spread)
    ratios = [log_ratio(sample, before, after, spread, plan.noise) for sample in drawn]
    return told_apart(asked.name, asked.source, float(claim), *ratios)


def told_apart(name: str, source: str, claim: float, null: np.ndarray, shifted: np.ndarray) -> NoisyFinding:
    """How far the log ratios of two tables' releases lie apart, beside what is claimed of it."""
    estimate, releases = _distance(null, shifted), len(null)
    # The distance of two means in units of a spread that is estimated, too.
    error = math.sqrt(2 / releases + estimate**2 / (4 * releases))
    lower, upper = max(estimate - DEVIATES * error, 0.0), estimate + DEVIATES * error
    return NoisyFinding(name, source, claim, estimate, lower, upper, releases)


def _distance(null: np.ndarray, shifted: np.ndarray) -> float:
    spread = math.sqrt((null.var(ddof=1) + shifted.var(ddof=1)) / 2)
    return float(shifted.mean() - null.mean()) / spread if spread > 0 else 0.0


def _claimed(before: np.ndarray, after: np.ndarray, spread: np.ndarray) -> float:
    """What the same statistic comes to under the claimed Laplace law, by simulation."""
    rng = np.random.default_rng(0)
    moved = np.flatnonzero(before != after)
    one, other, width = before[moved], after[moved], spread[moved]
    noise = rng.laplace(size=(200_000, len(moved))) * width / math.sqrt(2)
    return _distance(*(log_ratio(values + noise, one, other, width, "laplace") for values in (one, other)))


@dataclass
class _Release:
    """A folder in which versions of a case are written, measured and released."""

    folder: Path
    case: Case
    source: SourceKind
    count: int = 0

    def table(self, version: int) -> Any:
        folder = self.folder / f"version-{version}"
        folder.mkdir(exist_ok=True)
        return self.source.table(self.case.rows(version), self.case.columns, folder)

    def farthest(self) -> tuple[int, int]:
        """The two versions whose statistics are farthest apart, in units of the noise."""
        whitened = [exact / spread for exact, spread, _ in map(self.exact, range(len(self.case.versions)))]
        order = 1 if self.case.budget.pure else 2
        return max(self.case.pairs(), key=lambda pair: np.linalg.norm(whitened[pair[0]] - whitened[pair[1]], ord=order))

    def exact(self, version: int) -> tuple[np.ndarray, np.ndarray, Plan]:
        ready = prepare(self.table(version), self.case.request(self.source.backend), Ledger(self.folder / "measured"))
        found = aggregate(ready.rows, ready.grid, order=ready.request.order)
        return exact_vector(found, ready.plan), noise_vector(found, ready.plan), ready.plan

    def drawn(self, version: int, plan: Plan, noise: NoiseSource) -> np.ndarray:
        """The numbers of one whole release, from its file, with a ledger that has seen nothing yet."""
        self.count += 1
        ledger = Ledger(self.folder / f"ledger-{self.count}")
        released = privatize(self.table(version), self.case.request(self.source.backend), ledger, noise=noise)
        path = self.folder / "released.saibot"
        path.write_bytes(released.content)
        return sketch_vector(read_sketch(path), plan)


def sketch_vector(sketch: Sketch, plan: Plan) -> np.ndarray:
    """A sketch's numbers in the order of `exact_vector`."""
    used: dict[int, int] = {}
    whole = {block.order: np.array(block.values) for block in sketch.header.global_blocks}
    parts = []
    for block in plan.blocks:
        if block.scope == "global":
            parts.append(whole[block.order])
            continue
        start = used.get(block.level, 0)
        used[block.level] = start + block.entries(plan.request.features)
        parts.append(sketch.levels[block.level].values[:, start : used[block.level]].ravel())
    return np.concatenate(parts)
