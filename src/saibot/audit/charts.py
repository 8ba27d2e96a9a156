"""The two charts of an audit: how close pairs of tables come to their claims, and what real releases tell."""

from __future__ import annotations

from collections.abc import Sequence

from saibot.audit.noisy import NoisyFinding
from saibot.report.charts import Spec, chart, intervals
from saibot.report.format import number, plural

BINS = 25  # from 0 to the claim; what is beyond it has one more, a step apart
BEYOND = 1 + 1 / BINS
KINDS = {"not disproved": ("@chart-main", "circle"), "BROKEN": ("@bad", "diamond")}


def ratios_chart(ratios: Sequence[float]) -> Spec:
    """How many pairs come how close to their claim; beyond the line, claims are disproved."""
    counts = [0] * BINS
    for ratio in ratios:
        if ratio <= 1 + 1e-6:
            counts[min(int(ratio * BINS), BINS - 1)] += 1
    beyond = len(ratios) - sum(counts)
    bars = [(place / BINS, (place + 1) / BINS, count) for place, count in enumerate(counts)]
    rows = [
        {"low": low, "high": high, "count": count, "told": plural(count, "pair"), "broken": low >= BEYOND}
        for low, high, count in (*bars, (BEYOND, BEYOND + 1 / BINS, beyond))
    ]
    axis = {
        "title": "measured / claimed",
        "grid": False,
        "values": [0, 0.25, 0.5, 0.75, 1, BEYOND + 0.5 / BINS],
        "labelExpr": "datum.value > 1 ? 'beyond' : format(datum.value, '.2f')",
        "labelAlign": {"expr": "datum.value > 1 ? 'left' : 'center'"},
    }
    x = {"type": "quantitative", "scale": {"domain": [0, BEYOND + 2 / BINS], "nice": False}, "axis": axis}
    return chart(
        rows,
        description="Distribution of measured over claimed distances of all pairs.",
        height=180,
        encoding={
            "y": {"field": "count", "type": "quantitative", "axis": {"title": "pairs", "tickCount": 4, "tickMinStep": 1}}
        },
        layer=[
            {
                "mark": {"type": "bar", "binSpacing": 1.5},
                "encoding": {
                    "x": {"field": "low", **x, "bin": "binned"},
                    "x2": {"field": "high"},
                    "color": {"condition": {"test": "datum.broken", "value": "@bad"}, "value": "@chart-main"},
                    "tooltip": [{"field": "told", "title": "how many"}],
                },
            },
            {
                "data": {"values": [{"claim": 1}]},
                "mark": {"type": "rule", "strokeWidth": 2, "strokeDash": [3, 2], "color": "@ink"},
                "encoding": {"x": {"field": "claim", **x}, "y": None},
            },
        ],
    )


def separations_chart(findings: Sequence[NoisyFinding]) -> Spec:
    """For each attacked pair the estimate with its interval, and the claim as a stroke."""
    most = max([1.0, *(max(min(one.upper, 4 * one.claim), one.claim) for one in findings)]) * 1.05
    rows = [
        {
            "label": one.name,
            "middle": min(one.estimate, most),
            "low": min(one.lower, most),
            "high": min(one.upper, most),
            "claim": one.claim,
            "kind": "BROKEN" if one.broken else "not disproved",
            "told": f"claimed {number(one.claim, 3)}, shown {number(one.estimate, 3)}",
        }
        for one in findings
    ]
    return intervals(
        rows,
        kinds=KINDS,
        axis="separation in normal deviates",
        description="Estimated separation of attacked pairs beside their claims.",
        tooltip=[{"field": "label", "title": "pair"}, {"field": "told", "title": "separation"}],
    )
