"""The report's two pictures as SVG, drawn by hand: colours come from the page, so that they follow light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from saibot.audit.noisy import NoisyFinding

BINS = 25  # from 0 to the claim; one more for what is beyond it
WIDTH = 720


def ratio_picture(ratios: Sequence[float]) -> str:
    """How many pairs come how close to their claim; beyond the line, claims are disproved."""
    counts = [0] * (BINS + 1)
    for ratio in ratios:
        counts[BINS if ratio > 1 + 1e-6 else min(int(ratio * BINS), BINS - 1)] += 1
    left, top, height, step = 46, 14, 170, (WIDTH - 66) / (BINS + 3)
    most = max(*counts, 1)
    parts = []
    for number, count in enumerate(counts):
        x = left + step * (number + (1.5 if number == BINS else 0))
        tall = height * count / most
        if count:
            tall = max(tall, 1.5)
        kind = "bad" if number == BINS else "bar"
        label = "beyond the claim" if number == BINS else f"{number / BINS:.2f} to {(number + 1) / BINS:.2f} of the claim"
        parts.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{top + height - tall:.1f}" width="{step - 1.5:.1f}" height="{tall:.1f}">'
            f"<title>{count:,} pairs, {label}</title></rect>"
        )
    base = top + height
    for mark in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = left + step * BINS * mark
        parts.append(f'<text class="tick" x="{x:.1f}" y="{base + 18}" text-anchor="middle">{mark:g}</text>')
    claim = left + step * BINS + step * 0.4
    parts.append(f'<line class="claim" x1="{claim:.1f}" x2="{claim:.1f}" y1="{top - 8}" y2="{base + 4}"/>')
    parts.append(f'<text class="tick" x="{left + step * (BINS + 2):.1f}" y="{base + 18}" text-anchor="middle">beyond</text>')
    parts.append(f'<text class="tick" x="{left - 6}" y="{top + 8}" text-anchor="end">{most:,}</text>')
    parts.append(f'<line class="axis" x1="{left}" x2="{WIDTH - 16}" y1="{base}" y2="{base}"/>')
    middle = left + step * BINS / 2
    parts.append(f'<text class="tick" x="{middle:.1f}" y="{base + 36}" text-anchor="middle">measured / claimed</text>')
    return _svg(parts, base + 44, "Distribution of measured over claimed distances of all pairs")


def noisy_picture(findings: Sequence[NoisyFinding]) -> str:
    """For each attacked pair the estimate with its interval, and the claim as a line."""
    left, right, row = 300, 24, 24
    most = max([1.0, *(max(min(f.upper, 4 * f.claim), f.claim) for f in findings)]) * 1.05

    def place(value: float) -> float:
        return left + (WIDTH - left - right) * min(value, most) / most

    parts = []
    for number, found in enumerate(findings):
        y = 16 + row * number
        kind = "bad" if found.broken else "bar"
        told = f"{found.name} ({found.source}): claimed {found.claim:.3g}, shown {found.estimate:.3g}"
        parts.append(f'<text class="name" x="{left - 10}" y="{y + 4}" text-anchor="end">{escape(found.name)}</text>')
        parts.append(
            f'<line class="{kind} range" x1="{place(found.lower):.1f}" x2="{place(found.upper):.1f}" y1="{y}" y2="{y}"/>'
            f'<circle class="{kind}" cx="{place(found.estimate):.1f}" cy="{y}" r="4"><title>{escape(told)}</title></circle>'
            f'<line class="claim" x1="{place(found.claim):.1f}" x2="{place(found.claim):.1f}" y1="{y - 8}" y2="{y + 8}"/>'
        )
    base = 16 + row * len(findings)
    parts.append(f'<line class="axis" x1="{left}" x2="{WIDTH - right}" y1="{base - 4}" y2="{base - 4}"/>')
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        value = most * share
        parts.append(f'<text class="tick" x="{place(value):.1f}" y="{base + 12}" text-anchor="middle">{value:.1f}</text>')
    return _svg(parts, base + 24, "Estimated separation of attacked pairs beside their claims")


def _svg(parts: Sequence[str], height: float, label: str) -> str:
    inside = "".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">{inside}</svg>'
