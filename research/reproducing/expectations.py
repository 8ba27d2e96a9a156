"""Words for checks: near a published value, below another line, failed or not."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from research.reproducing.figure import Check
from research.reproducing.plotting import summary

Medians = Mapping[tuple[str, float], float]


def medians(frame: pd.DataFrame, x: str, value: str) -> dict[tuple[str, float], float]:
    """By method and x. A median over runs of which half failed is infinite."""
    found = summary(frame, ["method", x], value)
    return {(row["method"], row[x]): row["median"] for _, row in found.iterrows()}


def failures(frame: pd.DataFrame, x: str, value: str) -> dict[tuple[str, float], float]:
    """The share of failed runs by method and x."""
    found = summary(frame, ["method", x], value)
    return {(row["method"], row[x]): row["failed"] for _, row in found.iterrows()}


def said(value: float) -> str:
    return "fail" if math.isinf(value) else f"{value:.3g}"


def near(name: str, ours: float, paper: float, *, factor: float = 1.5, why: str = "") -> Check:
    """Within a factor of a value that was read off a plot."""
    close = ours == paper or (math.isfinite(ours) and math.isfinite(paper) and 1 / factor <= ours / paper <= factor)
    reason = f"ours {said(ours)}, paper {said(paper)}"
    return Check(name, close, reason if close or not why else f"{reason}: {why}")


def holds(name: str, condition: bool, reason: str, *, why: str = "") -> Check:
    return Check(name, bool(condition), reason if condition or not why else f"{reason}: {why}")
