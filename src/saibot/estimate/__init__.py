"""From sketches to numbers: totals, profiles, joins, regressions and their errors. Post-processing, all of it: no budget."""

from saibot.estimate.intervals import (
    GainInterval,
    Interval,
    coefficient_interval,
    gain_interval,
    level_interval,
    r2_interval,
    stop_quantile,
)
from saibot.estimate.lookup import LookupValues, lookup_values, ratio_values, shrink
from saibot.estimate.many_to_many import JoinedMoments, join_gram, joined, paper_weights
from saibot.estimate.moments import exact_moments, moments_of_sketch
from saibot.estimate.preview import Preview, preview
from saibot.estimate.profile import Profile, profile
from saibot.estimate.totals import Totals, totals

__all__ = [
    "GainInterval",
    "Interval",
    "JoinedMoments",
    "LookupValues",
    "Preview",
    "Profile",
    "Totals",
    "coefficient_interval",
    "exact_moments",
    "gain_interval",
    "join_gram",
    "joined",
    "level_interval",
    "lookup_values",
    "moments_of_sketch",
    "paper_weights",
    "preview",
    "profile",
    "r2_interval",
    "ratio_values",
    "shrink",
    "stop_quantile",
    "totals",
]
