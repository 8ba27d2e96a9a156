"""`nonprivate`: the statistics as they are. No guarantee at all; the upper bound of what any mechanism can reach."""

from __future__ import annotations

from research.baselines.noise import EntryNoise

MECHANISM = "nonprivate"


def noise(*, features: int) -> EntryNoise:
    return EntryNoise.none(features)
