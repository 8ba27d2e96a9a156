"""The audit as one HTML file that opens anywhere: no script, nothing fetched, light and dark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from saibot import __version__
from saibot.audit.drawing import noisy_picture, ratio_picture
from saibot.audit.run import Audit
from saibot.safe_file import write_safely

STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --dim: #5b6875; --page: #fff; --panel: #f4f6f8; --line: #d5dbe1;
  --bar: #2b6cb0; --bad: #c0392b; --good: #2e7d4f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf0; --dim: #9aa7b4; --page: #14191f; --panel: #1d242c;
  --line: #36414d; --bar: #6ea8e0; --bad: #ef7b6c; --good: #6fc492; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 0 auto; max-width: 60rem;
  padding: 1.5rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p { margin: .4rem 0; max-width: 46rem; } .dim { color: var(--dim); }
.verdict { font-weight: 650; } .BROKEN, .broken { color: var(--bad); font-weight: 650; } .fine { color: var(--good); }
table { border-collapse: collapse; width: 100%; font-size: .9rem; } .scroll { overflow-x: auto; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--dim); font-weight: 600; } .n { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: var(--panel); padding: .8rem; overflow-x: auto; font-size: .8rem; border-radius: 6px; }
svg { width: 100%; height: auto; background: var(--panel); border-radius: 6px; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); } svg .tick { fill: var(--dim); }
svg rect.bar, svg circle.bar { fill: var(--bar); } svg rect.bad, svg circle.bad { fill: var(--bad); }
svg line.bar { stroke: var(--bar); } svg line.bad { stroke: var(--bad); } svg .range { stroke-width: 2; opacity: .6; }
svg .axis { stroke: var(--line); } svg .claim { stroke: var(--ink); stroke-width: 2; stroke-dasharray: 3 2; }
"""


def write_report(found: Audit, folder: Path) -> None:
    """report.html to look at, report.json to compute with."""
    folder.mkdir(parents=True, exist_ok=True)
    write_safely(folder / "report.html", report_html(found).encode())
    write_safely(folder / "report.json", (json.dumps(found.to_json(), indent=1, ensure_ascii=False) + "\n").encode())


def report_html(found: Audit) -> str:
    ratios = [ratio for outcome in found.outcomes for ratio in outcome.ratios]
    broken = len(found.broken_pairs)
    verdict = "A claim is disproved." if found.broken else "Nothing was disproved."
    pictures = f"<figure>{ratio_picture(ratios)}</figure>"
    sections = [
        f"<h1>Audit of Saibot {escape(__version__)}</h1>",
        f'<p class="verdict {"broken" if found.broken else "fine"}">{verdict}</p>',
        f'<p class="dim">{datetime.now(UTC).date().isoformat()}, seed {found.terms.seed}'
        + (f", noise scaled by {found.terms.noise_factor:g} on purpose" if found.terms.noise_factor != 1 else "")
        + "</p>",
        "<p>What is not disproved is not thereby proved: that is what proofs are for. This page tells what was tried.</p>",
        "<h2>Neighbouring tables, from file to statistics</h2>",
        f"<p>{found.compared:,} pairs of tables that differ in one individual went through reading, preparation and "
        f"aggregation. Their exact statistics may lie no further apart than the plan claims, in units of its noise: "
        f"{broken:,} pairs do.</p>",
        pictures,
        _groups(found),
        "<h2>Forms of tables</h2>",
        "<p>The same rows as each library and file format has them. A mixture that a library itself refuses is no table; "
        "where neither of two tables is released, there is nothing to compare.</p>",
        _sources(found),
        "<h2>Real releases, file to file</h2>",
        "<p>Estimated separation of the releases of two neighbouring tables in normal deviates, with its interval; the "
        "dashed line is what is claimed. For Gaussian noise this is μ.</p>",
        f"<figure>{noisy_picture(found.releases)}</figure>",
        _releases(found),
        "<h2>The mechanisms by themselves</h2>",
        "<p>Many draws of the noise for the pair that each mechanism finds hardest to hide, and a lower bound on what they "
        "tell.</p>",
        _mechanisms(found),
        "<h2>Promises</h2>",
        _table(
            ["promise", "verdict", ""],
            [[escape(one.promise), _word(one.word), escape(one.broken or one.skipped)] for one in found.promises],
        ),
    ]
    if found.examples:
        sections += [
            "<h2>Counterexamples</h2>",
            "<p>Made as small as they can be. Cells that differ stand between stars.</p>",
        ]
        sections += [f"<pre>{escape(example)}</pre>" for example in found.examples]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head><title>Audit</title>{head}</head><body>{"".join(sections)}</body></html>\n'


def _groups(found: Audit) -> str:
    rows = [
        [
            escape(name),
            f"{group['pairs']:,}",
            f"{group['claimed']:.4g}",
            f"{group['measured']:.4g}",
            _ratio(group["ratio"]),
        ]
        for name, group in found.groups().items()
    ]
    heads = ["release", "pairs", "claimed (μ, or ε for Laplace)", "measured", "largest ratio"]
    return _table(heads, rows, numbers=(1, 2, 3, 4))


def _sources(found: Audit) -> str:
    rows = [
        [
            escape(name),
            f"{row['pairs']:,}",
            f"{row['refused']:,}",
            f"{row['skipped']:,}",
            f'<span class="broken">{row["broken"]:,}</span>' if row["broken"] else "0",
        ]
        for name, row in found.by_source().items()
    ]
    heads = ["form", "pairs compared", "pairs not released", "tables not made", "beyond a claim"]
    return _table(heads, rows, numbers=(1, 2, 3, 4))


def _releases(found: Audit) -> str:
    rows = [
        [
            escape(one.name),
            escape(one.source),
            f"{one.claim:.3g}",
            f"{one.estimate:.3g} ({one.lower:.3g} to {one.upper:.3g})",
            f"{one.releases:,}",
            _word("BROKEN" if one.broken else "not disproved"),
        ]
        for one in found.releases
    ]
    return _table(["pair", "form", "claimed", "shown", "releases each", "verdict"], rows, numbers=(2, 3, 4))


def _mechanisms(found: Audit) -> str:
    rows = [
        [
            escape(f"{one.mechanism} {one.layout} ({one.noise})"),
            f"{one.claim:.3g}",
            f"{one.lower_bound:.3g}",
            f"{one.releases:,}",
            _word("BROKEN" if one.broken else "not disproved"),
        ]
        for one in found.mechanisms
    ]
    return _table(["mechanism", "claimed", "shown at least", "draws each", "verdict"], rows, numbers=(1, 2, 3))


def _ratio(ratio: float) -> str:
    return f'<span class="broken">{ratio:.4g}</span>' if ratio > 1 + 1e-6 else f"{ratio:.4g}"


def _word(word: str) -> str:
    return f'<span class="{"broken" if word == "BROKEN" else "plain"}">{word}</span>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = ()) -> str:
    """Cells are HTML already."""

    def line(cells: Sequence[str], tag: str) -> str:
        marked = (f"<{tag}{' class=n' if i in numbers else ''}>{cell}</{tag}>" for i, cell in enumerate(cells))
        return f"<tr>{''.join(marked)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f'<div class="scroll"><table><thead>{line(heads, "th")}</thead><tbody>{body}</tbody></table></div>'
