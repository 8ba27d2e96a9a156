"""Which sketches to look at: by what their headers say and by what their private profiles show.

Profiles are noisy and say by how much. A sketch is left out only where it is clearly outside what was asked for: by two
errors beyond the limit. Where noise leaves nothing to say, it stays in.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np

from saibot.errors import InvalidInput
from saibot.estimate.profile import Estimate, Profile, profile
from saibot.privacy.budget import exact_decimal, plain
from saibot.privacy.neighbours import Neighbours
from saibot.sketch import Sketch
from saibot.sketch.header import Header

ERRORS = 2.0  # how many standard deviations of the noise make a number clear


@dataclass(frozen=True)
class Range:
    """At least, at most, or both, ends included."""

    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if any(end is not None and not np.isfinite(end) for end in (self.low, self.high)):
            raise InvalidInput("a range has finite ends; leave one out where there is no limit.")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise InvalidInput(f"nothing is at least {self.low:g} and at most {self.high:g}.")

    def clearly_outside(self, found: Estimate) -> str | None:
        """Why the number cannot be in the range, noise considered; None where it may be."""
        if found.value is None:
            return None
        slack = ERRORS * (found.error or 0.0)
        shown = f"{found.value:.4g}" + (f" ± {found.error:.2g}" if found.error else "")
        if self.low is not None and found.value + slack < self.low:
            return f"{shown}, clearly below {self.low:g}"
        if self.high is not None and found.value - slack > self.high:
            return f"{shown}, clearly above {self.high:g}"
        return None


@dataclass(frozen=True)
class Filter:
    """What a sketch has to be like. Everything left out is not asked for; simulated or nonprivate ones must be asked for."""

    words: str = ""  # each begins a word of its name, title, description, individual, key, domain or features
    features: tuple[str, ...] = ()
    count: Range | None = None
    rows_per_key: Range | None = None
    in_domain: Range | None = None  # share of the rows whose key is in the domain, rather than in the catch-all
    coverage: Range | None = None  # share of the request's keys, which a join states exactly
    means: Mapping[str, Range] = field(default_factory=dict)
    deviations: Mapping[str, Range] = field(default_factory=dict)
    neighbours: Neighbours | None = None
    least_epsilon: Decimal | str | None = None
    most_epsilon: Decimal | str | None = None
    most_delta: Decimal | str | None = None
    simulation: bool = False
    nonprivate: bool = False

    @property
    def needs_profile(self) -> bool:
        return bool(self.count or self.rows_per_key or self.in_domain or self.means or self.deviations)


@dataclass(frozen=True)
class Verdict:
    """Whether a sketch passes: every reason against it, and what could not be judged."""

    dataset: str
    digest: str | None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        return not self.reasons

    def explain(self) -> str:
        words = [*self.reasons, *self.notes]
        return f"{self.dataset}: {'kept' if self.kept else 'left out'}" + (f": {'; '.join(words)}" if words else "")


def check_header(header: Header, wanted: Filter) -> Verdict:
    """What can be judged without the statistics."""
    return Verdict(header.dataset.name, header.digest, tuple(_header_reasons(header, wanted)))


def check_sketch(sketch: Sketch, wanted: Filter, *, coverage: float | None = None) -> Verdict:
    """Judge a sketch. `coverage` is what its join with the request states, where there is one."""
    header = sketch.header
    reasons = _header_reasons(header, wanted)
    notes: list[str] = []
    if wanted.coverage is not None and coverage is None:
        notes.append("it was not joined, so its coverage is not known")
    elif wanted.coverage is not None and coverage is not None:
        reasons += _outside("the coverage of the request's keys", wanted.coverage, Estimate(coverage, 0.0))
    if wanted.needs_profile and not reasons:  # a profile takes longer than a glance at the header
        try:
            more, unclear = _profile_reasons(sketch, profile(sketch), wanted)
            reasons, notes = reasons + more, notes + unclear
        except InvalidInput as problem:
            notes.append(f"no profile: {problem.message}")
    return Verdict(header.dataset.name, header.digest, tuple(reasons), tuple(notes))


def filter_sketches(sketches: Iterable[Sketch], wanted: Filter) -> tuple[list[Sketch], list[Verdict]]:
    """The sketches that pass, in order, and the verdicts on the others."""
    kept, dropped = [], []
    for sketch in sketches:
        verdict = check_sketch(sketch, wanted)
        if verdict.kept:
            kept.append(sketch)
        else:
            dropped.append(verdict)
    return kept, dropped


# ------------------------------------------------------------------------------------------------ inside


def _header_reasons(header: Header, wanted: Filter) -> list[str]:
    reasons = []
    if header.simulation and not wanted.simulation:
        reasons.append("its noise is simulated: nothing in it is private")
    if header.preparation.kind == "nonprivate" and not wanted.nonprivate:
        reasons.append("its rows were prepared in a way that is not private")
    if wanted.neighbours is not None and header.neighbours is not wanted.neighbours:
        reasons.append(f"it is protected under {header.neighbours}, not {wanted.neighbours}")
    reasons += _budget_reasons(header, wanted)
    names = {feature.name for feature in header.features} | {feature.column for feature in header.features}
    reasons += [f"it has no feature {name!r}" for name in wanted.features if name not in names]
    said = _words(header)
    for word in _folded(wanted.words).split():
        if not any(each.startswith(word) for each in said):
            reasons.append(f"no word that begins with {word!r} in what it says about itself")
    return reasons


def _budget_reasons(header: Header, wanted: Filter) -> list[str]:
    reasons = []
    epsilon, delta = (exact_decimal(header.budget[name], name=name) for name in ("epsilon", "delta"))
    limits = (
        ("ε", epsilon, wanted.least_epsilon, wanted.most_epsilon),
        ("δ", delta, None, wanted.most_delta),
    )
    for symbol, value, least, most in limits:
        if least is not None and value < exact_decimal(least, name=symbol):
            reasons.append(f"its {symbol}={plain(value)} is below {least}: noisier than asked for")
        if most is not None and value > exact_decimal(most, name=symbol):
            reasons.append(f"its {symbol}={plain(value)} is above {most}: less protected than asked for")
    return reasons


def _profile_reasons(sketch: Sketch, found: Profile, wanted: Filter) -> tuple[list[str], list[str]]:
    reasons: list[str] = []
    notes: list[str] = []
    if wanted.count is not None:
        reasons += _outside("the number of rows", wanted.count, found.count)
    for what, limit, estimate in (
        ("rows per key", wanted.rows_per_key, rows_per_key(sketch, found)),
        ("the share of rows inside the key domain", wanted.in_domain, share_in_domain(sketch, found)),
    ):
        if limit is not None and estimate is None:
            reasons.append(f"it has no key, so there is nothing to be said of {what}")
        elif limit is not None and estimate is not None:
            reasons += _outside(what, limit, estimate)
    means = {feature.name: feature.mean for feature in found.features}
    deviations = {feature.name: feature.deviation for feature in found.features}
    for what, limits, estimates in (("mean", wanted.means, means), ("deviation", wanted.deviations, deviations)):
        for name, limit in limits.items():
            if name not in estimates:
                reasons.append(f"it has no feature {name!r}")
            elif estimates[name].value is None:
                notes.append(f"noise leaves nothing to say about the {what} of {name}")
            else:
                reasons += _outside(f"the {what} of {name}", limit, estimates[name])
    return reasons, notes


def rows_per_key(sketch: Sketch, found: Profile) -> Estimate | None:
    """Rows for each key of the domain, on average; None without a key."""
    if not sketch.levels or found.count.value is None:
        return None
    keys = max(len(sketch.levels[0]) - 1, 1)
    return Estimate(found.count.value / keys, (found.count.error or 0.0) / keys)


def share_in_domain(sketch: Sketch, found: Profile) -> Estimate | None:
    """The share of rows whose key is in the domain: the catch-all's count tells the rest. None without a key."""
    if not sketch.levels or found.count.value is None:
        return None
    n = max(found.count.value, 1.0)
    outside = float(sketch.levels[0].values[-1, 0])
    share = outside / n
    noise = np.hypot(sketch.sigma("key", 0) or 0.0, share * (found.count.error or 0.0)) / n
    return Estimate(1 - share, float(noise))


def _outside(what: str, limit: Range, found: Estimate) -> list[str]:
    why = limit.clearly_outside(found)
    return [] if why is None else [f"{what} is {why}"]


def _words(header: Header) -> set[str]:
    facts = header.dataset
    words = [facts.name, facts.title, facts.description, facts.individual]
    words += [feature.name for feature in header.features] + [feature.unit for feature in header.features]
    if header.key is not None:
        words += [header.key.name, *header.key.levels]
        words += [text for part in header.key.parts for text in (part.name, part.domain)]
    return set(_folded(" ".join(words)).split())


def _folded(text: str) -> str:
    """Case and accents do not matter to whoever searches, nor what joins words."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    letters = (letter for letter in decomposed if not unicodedata.combining(letter))
    return "".join(letter if letter.isalnum() else " " for letter in letters)
