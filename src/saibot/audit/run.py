"""The whole audit: pairs of tables compared exactly, releases attacked, promises tried; and what all of it comes to."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saibot import __version__
from saibot.audit.cases import tight_cases
from saibot.audit.choices import audit_choices, audit_counts
from saibot.audit.comparing import Bench, Broken, CaseOutcome, case_of, sweep
from saibot.audit.key_attack import audit_found_keys
from saibot.audit.likelihood_ratio import Finding, audit_all, audited_noise
from saibot.audit.minimise import minimised, shown
from saibot.audit.noisy import NoisyFinding, audit_releases, noisy_cases
from saibot.audit.promises import Verdict, all_promises
from saibot.audit.sources import SOURCES
from saibot.audit.training_attack import audit_training
from saibot.errors import InvalidInput

Tell = Callable[[str, float | None], None]
JOURNAL = "pairs.jsonl"


@dataclass(frozen=True)
class AuditTerms:
    """How long and hard to try. `minutes` ends the comparison of pairs; the rest takes what it takes."""

    seed: int
    pairs: int = 600  # random ones, after the tight ones
    sources: tuple[str, ...] = ()
    minutes: float | None = None
    releases: int = 1000  # of statistics, by the mechanism alone
    file_releases: int = 20  # whole ones, file to file
    all_releases: bool = False  # every mechanism file to file, not only the pairs with an odd cell
    noise_factor: float = 1.0
    workers: int = 1
    examples: int = 3  # counterexamples to make small and show

    def __post_init__(self) -> None:
        unknown = [name for name in self.sources if name not in {source.name for source in SOURCES}]
        if unknown:
            have = "; ".join(source.name for source in SOURCES)
            raise InvalidInput(f"there is no form of table called {unknown[0]!r}.", hint=f"There are: {have}.")


@dataclass(frozen=True)
class Audit:
    """Everything that was found."""

    terms: AuditTerms
    outcomes: tuple[CaseOutcome, ...]
    examples: tuple[str, ...]
    mechanisms: tuple[Finding, ...]
    releases: tuple[NoisyFinding, ...]
    promises: tuple[Verdict, ...]
    seconds: float  # that comparing pairs took, this time
    compared_now: int  # pairs in that time

    @property
    def broken_pairs(self) -> tuple[Broken, ...]:
        return tuple(entry for outcome in self.outcomes for entry in outcome.broken)

    @property
    def broken(self) -> bool:
        attacks: Iterable[Finding | NoisyFinding] = (*self.mechanisms, *self.releases)
        return bool(self.broken_pairs) or any(a.broken for a in attacks) or any(p.broken for p in self.promises)

    @property
    def compared(self) -> int:
        return sum(outcome.compared for outcome in self.outcomes)

    @property
    def pairs_a_minute(self) -> float:
        return 60 * self.compared_now / max(self.seconds, 1e-9)

    def groups(self) -> dict[str, dict[str, Any]]:
        """By mechanism, layout and law: pairs, and the claimed and the measured distance of the one nearest to its claim."""
        found: dict[str, dict[str, Any]] = {}
        for outcome in sorted(self.outcomes, key=lambda outcome: outcome.group):
            group = found.setdefault(outcome.group, {"pairs": 0, "ratio": 0.0, "claimed": 0.0, "measured": 0.0})
            group["pairs"] += outcome.compared
            ratio = max(outcome.ratios, default=0.0)
            if ratio > group["ratio"]:
                group |= {"ratio": ratio, "claimed": outcome.claim, "measured": ratio * outcome.claim}
        return found

    def by_source(self) -> dict[str, dict[str, int]]:
        """By form of table: pairs compared, pairs that no release is made of, tables not made, claims disproved."""
        found: dict[str, dict[str, int]] = {}
        for outcome in sorted(self.outcomes, key=lambda outcome: outcome.source):
            row = found.setdefault(outcome.source, {"pairs": 0, "refused": 0, "skipped": 0, "broken": 0})
            row["pairs"] += outcome.compared
            row["refused"] += outcome.refused
            row["skipped"] += outcome.skipped
            row["broken"] += len(outcome.broken)
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "seed": self.terms.seed,
            "verdict": "BROKEN" if self.broken else "not disproved",
            "pairs": self.compared,
            "pairs_a_minute": round(self.pairs_a_minute),
            "groups": self.groups(),
            "sources": self.by_source(),
            "broken_pairs": [vars(entry) for entry in self.broken_pairs],
            "counterexamples": list(self.examples),
            "mechanisms": [finding.to_json() for finding in self.mechanisms],
            "releases": [finding.to_json() for finding in self.releases],
            "promises": [verdict.to_json() for verdict in self.promises],
        }


def run_audit(terms: AuditTerms, *, folder: Path | None = None, tell: Tell = lambda stage, part: None) -> Audit:
    """Try everything. With a folder, pairs are written down there as they are compared; an audit that stopped goes on."""
    outcomes = _read_journal(folder, terms)
    before = sum(outcome.compared for outcome in outcomes)
    start = time.monotonic()
    outcomes += _compare(terms, outcomes, folder, tell)
    seconds = time.monotonic() - start
    examples = _examples(outcomes, terms, tell)
    tell("attacking the mechanisms", None)
    mechanisms = audit_all(releases=terms.releases, noise_factor=terms.noise_factor, tell=tell)
    noise = audited_noise(terms.noise_factor)
    tell("attacking the choice of bounds", None)
    choices = [
        *audit_choices(releases=terms.releases, noise=noise),
        *audit_counts(releases=terms.releases, noise=noise),
    ]
    tell("attacking the search for keys", None)
    keys = audit_found_keys(releases=terms.releases, noise=noise)
    cases = noisy_cases()
    chosen = cases if terms.all_releases else cases[:4]
    releases = audit_releases(
        chosen, releases=terms.file_releases, noise_factor=terms.noise_factor, workers=terms.workers, tell=tell
    )
    tell("attacking a round of training together", None)
    training = audit_training(releases=terms.file_releases, noise_factor=terms.noise_factor)
    promises = all_promises(tell)
    compared = sum(outcome.compared for outcome in outcomes) - before
    return Audit(
        terms,
        tuple(outcomes),
        examples,
        (*mechanisms, *choices, *keys),
        (*releases, *training),
        tuple(promises),
        seconds,
        compared,
    )


def _compare(terms: AuditTerms, done: list[CaseOutcome], folder: Path | None, tell: Tell) -> list[CaseOutcome]:
    tight = len(tight_cases())
    compared = sum(outcome.compared for outcome in done if outcome.number >= tight)
    if compared >= terms.pairs:
        return []
    new = []
    going = sweep(
        seed=terms.seed,
        pairs=terms.pairs - compared,
        sources=terms.sources,
        noise_factor=terms.noise_factor,
        first=max((outcome.number for outcome in done), default=-1) + 1,
        seconds=None if terms.minutes is None else terms.minutes * 60,
        workers=terms.workers,
        done=lambda count: tell("comparing pairs", min((compared + count) / terms.pairs, 1.0)),
    )
    for outcome in going:
        new.append(outcome)
        if folder is not None:
            with (folder / JOURNAL).open("a", encoding="utf-8") as file:
                file.write(json.dumps(outcome.to_json()) + "\n")
    return new


def _read_journal(folder: Path | None, terms: AuditTerms) -> list[CaseOutcome]:
    """What an earlier run of the same audit wrote down; a line that was cut off is left out."""
    if folder is None:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / JOURNAL
    same = {"version": __version__, "seed": terms.seed, "sources": list(terms.sources), "noise_factor": terms.noise_factor}
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    if not lines:
        path.write_text(json.dumps(same) + "\n", encoding="utf-8")
        return []
    documents = []
    for line in lines:
        try:
            documents.append(json.loads(line))
        except json.JSONDecodeError:
            break
    if not documents or documents[0] != same:
        raise InvalidInput(f"{folder} holds another audit.", hint="Choose another folder with --out, or its own --seed.")
    if len(documents) < len(lines):
        path.write_text("".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8")
    return [CaseOutcome.from_json(document) for document in documents[1:]]


def seed_of(folder: Path | None) -> int | None:
    """The seed of the audit that a folder holds, to go on with it."""
    try:
        first = (folder / JOURNAL).read_text(encoding="utf-8").split("\n", 1)[0] if folder is not None else ""
        return int(json.loads(first)["seed"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _examples(outcomes: list[CaseOutcome], terms: AuditTerms, tell: Tell) -> tuple[str, ...]:
    """One counterexample of each kind and form, made small; no more than were asked for."""
    first: dict[tuple[str, str], Broken] = {}
    for outcome in outcomes:
        for entry in outcome.broken:
            first.setdefault((entry.kind, entry.source), entry)
    told = []
    with tempfile.TemporaryDirectory(prefix="saibot-audit-") as folder:
        bench = Bench(Path(folder), terms.noise_factor)
        for entry in list(first.values())[: terms.examples]:
            tell(f"making a counterexample small ({entry.source})", None)
            case = case_of(terms.seed, entry.number).only(entry.one, entry.other)
            source = next(source for source in SOURCES if source.name == entry.source)
            small = minimised(case, source, bench, seconds=10.0)
            if small is not None:
                told.append(f"case {entry.number}, versions {entry.one} and {entry.other}; {shown(small)}")
    return tuple(told)


def usual_workers() -> int:
    return min(os.cpu_count() or 1, 8)
