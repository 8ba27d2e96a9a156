"""Finding the closest sets takes a small part of the time of comparing with all of them, in one run on the same sets."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from saibot.discover import DomainCard, DomainIndex, closest
from saibot.sketch import KeyDomain


class Memory:
    """Domains as a platform has them at hand."""

    def __init__(self, domains: list[KeyDomain]) -> None:
        self._domains = {(domain.id, domain.version): domain for domain in domains}

    def get(self, id: str, version: int | None = None) -> KeyDomain:
        return self._domains[id, version or 1]

    def find(self, digest: str) -> KeyDomain | None:
        return None

    def entry(self, digest: str) -> DomainCard | None:
        return None


@pytest.mark.slow
def test_the_ten_closest_of_twenty_thousand_sets_are_found_ten_times_faster_than_by_comparing_all(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    families = [int(size) for size in np.clip(rng.lognormal(np.log(600), 1.0, 200), 20, 5000)]
    domains = []
    for i in range(20_000):
        family = int(rng.integers(len(families)))
        own = np.flatnonzero(rng.random(families[family]) < rng.uniform(0.05, 1))
        extra = [f"x{i}-{j}" for j in range(1 + int(families[family] * rng.choice([0, 0, 0.2, 1])))]
        domains.append(KeyDomain(f"d{i}", 1, (*(f"u{family}-{j}" for j in own), *extra)))
    source, index = Memory(domains), DomainIndex(tmp_path / "index.sqlite")
    index.insert(*domains)
    sets = [frozenset(domain.values) for domain in domains]
    ratios, right = [], 0
    for family in np.argsort(families)[-100::10].tolist():
        question = {f"u{family}-{j}" for j in range(0, families[family], 2)}
        closest(index, source, question)
        start = time.perf_counter()
        found = closest(index, source, question)
        middle = time.perf_counter()
        exact = sorted((len(question & other) for other in sets), reverse=True)
        ratios.append((time.perf_counter() - middle) / (middle - start))
        right += [match.shared for match in found.matches] == exact[:10]
    assert np.median(ratios) > 10, ratios
    assert right >= 8
