"""Many cases, one after the other: each in one form of table, all pairs of its versions compared.

An outcome is a plain document, so that a long sweep can be written down line by line and go on where it stopped.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from saibot.audit.cases import Case, random_case, tight_cases
from saibot.audit.measuring import Comparison, MeasuredTable, RefusedTable, compare, measure
from saibot.audit.sources import SOURCES, LibraryRefused, SourceKind
from saibot.privacy.ledger import Ledger
from saibot.privatize.engines import engine_named


@dataclass(frozen=True)
class Broken:
    """A pair that disproves a claim: versions `one` and `other` of case `number`."""

    number: int
    source: str
    one: int
    other: int
    kind: str
    ratio: float | None  # None where there is nothing to measure: a refusal, a public fact
    said: str


@dataclass(frozen=True)
class CaseOutcome:
    """What comparing one case came to. `ratios` are measured / claimed, one for each pair that was measured."""

    number: int
    group: str
    source: str
    ratios: tuple[float, ...]
    skipped: int  # tables that the library did not make
    refused: int  # pairs of which neither table is released: nothing to compare
    broken: tuple[Broken, ...]
    claim: float = 0.0  # of the pair with the largest ratio, in units of noise: mu for Gaussian noise

    @property
    def compared(self) -> int:
        return len(self.ratios) + sum(entry.ratio is None for entry in self.broken)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> CaseOutcome:
        broken = tuple(Broken(**entry) for entry in document["broken"])
        return cls(**(document | {"ratios": tuple(document["ratios"]), "broken": broken}))


def case_of(seed: int, number: int) -> Case:
    """Case `number`: the tight ones first, then random ones."""
    tight = tight_cases()
    return tight[number] if number < len(tight) else random_case(seed, number)


def source_of(case: Case, number: int, names: Sequence[str] = ()) -> SourceKind | None:
    """The form in which a case is tried, one after the other; the Polars engine does not count rows of individuals."""
    fit = [source for source in SOURCES if not names or source.name in names]
    fit = [source for source in fit if engine_named(source.backend).numbers_rows or "id" not in case.columns]
    return fit[number % len(fit)] if fit else None


def sweep(
    *,
    seed: int,
    pairs: int,
    sources: Sequence[str] = (),
    noise_factor: float = 1.0,
    first: int = 0,
    seconds: float | None = None,
    workers: int = 1,
    done: Callable[[int], None] = lambda count: None,
) -> Iterator[CaseOutcome]:
    """All tight cases, then random ones until so many of their pairs were compared, or the time is over.

    `first` is the number of the case to begin with, where an earlier sweep ended.
    """
    end = None if seconds is None else time.monotonic() + seconds
    compared, tight = 0, len(tight_cases())
    for outcome in _outcomes(seed, first, tuple(sources), noise_factor, workers):
        compared += outcome.compared if outcome.number >= tight else 0
        done(compared)
        yield outcome
        if (compared >= pairs and outcome.number + 1 >= tight) or (end is not None and time.monotonic() > end):
            return


def _outcomes(seed: int, first: int, sources: tuple[str, ...], noise_factor: float, workers: int) -> Iterator[CaseOutcome]:
    if workers == 1:
        number = first
        while True:
            yield tried(seed, number, sources, noise_factor)
            number += 1
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(tried, seed, first + i, sources, noise_factor) for i in range(4 * workers)]
        number = first + len(waiting)
        try:
            while True:
                yield waiting.pop(0).result()
                waiting.append(pool.submit(tried, seed, number, sources, noise_factor))
                number += 1
        finally:
            for future in waiting:
                future.cancel()


def tried(seed: int, number: int, sources: tuple[str, ...] = (), noise_factor: float = 1.0) -> CaseOutcome:
    """Compare all pairs of one case."""
    case = case_of(seed, number)
    source = source_of(case, number, sources)
    if source is None:
        return CaseOutcome(number, case.group, "none", (), len(case.versions), 0, ())
    with tempfile.TemporaryDirectory(prefix="saibot-audit-") as folder:
        bench = Bench(Path(folder), noise_factor)
        measured = [bench.measure(case, version, source) for version in range(len(case.versions))]
    ratios: list[float] = []
    refused, broken, claim = 0, [], 0.0
    for one, other in case.pairs():
        first, second = measured[one], measured[other]
        if first is None or second is None:
            continue
        found = compare(first, second)
        finite = found.ratio < float("inf")
        if found.part == "refused":
            refused += 1
        elif finite:
            claim = found.claim if found.ratio > max(ratios, default=0.0) else claim
            ratios.append(found.ratio)
        if found.broken is not None:
            ratio = found.ratio if finite else None
            broken.append(Broken(number, source.name, one, other, found.broken, ratio, found.said))
    skipped = sum(entry is None for entry in measured)
    return CaseOutcome(number, case.group, source.name, tuple(ratios), skipped, refused, tuple(broken), claim)


class KnownLedger(Ledger):
    """A ledger whose secrets follow from a word: which rows of an individual are kept must be the same when tried again."""

    def __init__(self, home: Path, word: str) -> None:
        super().__init__(home)
        self._word = word

    def secret(self, purpose: str) -> str:
        return hashlib.sha256(f"{self._word} {purpose}".encode()).hexdigest()


@dataclass(frozen=True)
class Bench:
    """A folder with a ledger, in which tables are made and measured."""

    folder: Path
    noise_factor: float = 1.0

    def measure(self, case: Case, version: int, source: SourceKind) -> MeasuredTable | RefusedTable | None:
        """One version of a case; None where the library makes no such table."""
        ledger = KnownLedger(self.folder / "ledger", case.name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries about the odd mixtures that they are given on purpose
            try:
                table = source.table(case.rows(version), case.columns, self.folder)
            except LibraryRefused:
                return None
            return measure(table, case, source, ledger, noise_factor=self.noise_factor)

    def compare(self, case: Case, source: SourceKind) -> Comparison | None:
        """The first two versions of a case."""
        one, other = (self.measure(case, version, source) for version in (0, 1))
        return None if one is None or other is None else compare(one, other)
