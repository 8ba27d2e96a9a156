"""Factors: what all sketches of a key domain say together, and what that says about each of them and about a request.

    tree = KeyTree.of(domain, levels)                      # or KeyTree(number of combinations) of a composite key
    readings = Readings.join([Readings.of_sketch(sketch, tree, domain) for sketch in sketches])
    factors = learn(readings, providers=names)             # or learn_by_group: a requester never meets its own tables
    found = apply(factors, readings)                       # values, variances, tau^2; with rank 0 today's values exactly
    gains = expected_gains(factors, readings, found.tau2, request)

Post-processing of public sketches: no budget. Linear in keys and in tables. Derivation: docs/explanation/mathematics.md.
"""

from saibot.estimate.factors.learning import GroupedFactors, learn, learn_by_group
from saibot.estimate.factors.model import Factors, RankScore, shared_columns
from saibot.estimate.factors.posterior import FactorPosterior
from saibot.estimate.factors.readings import KeyTree, Readings
from saibot.estimate.factors.requests import (
    Denoised,
    ExpectedGains,
    RequestSums,
    denoised_request,
    expected_gains,
    usable_gains,
    variance_within,
)
from saibot.estimate.factors.values import FactorValues, apply

__all__ = [
    "Denoised",
    "ExpectedGains",
    "FactorPosterior",
    "FactorValues",
    "Factors",
    "GroupedFactors",
    "KeyTree",
    "RankScore",
    "Readings",
    "RequestSums",
    "apply",
    "denoised_request",
    "expected_gains",
    "learn",
    "learn_by_group",
    "shared_columns",
    "usable_gains",
    "variance_within",
]
