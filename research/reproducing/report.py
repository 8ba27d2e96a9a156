"""One page with all figures that were made: readable offline, nothing loaded from anywhere but the folder it lies in."""

from __future__ import annotations

from html import escape
from pathlib import Path

from research.reproducing.reproduce import Reproduced

STYLE = """
:root { color-scheme: light; --ink: #1f2328; --faint: #6e7781; --line: #d8dee4; --good: #1a7f37; --other: #9a6700; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); margin: 0 auto; max-width: 1180px; padding: 1.5rem; }
h1 { margin: 0 0 .3rem; } h2 { margin: 2.5rem 0 .5rem; border-bottom: 1px solid var(--line); }
p.about, .small { color: var(--faint); } .small { font-size: .85rem; }
table { border-collapse: collapse; } td, th { padding: .15rem .8rem .15rem 0; text-align: left; vertical-align: top; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 480px), 1fr)); gap: 1.2rem; }
article { border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem; min-width: 0; }
article.wide { grid-column: 1 / -1; } article h3 { margin: 0; font-size: 1.05rem; }
img { max-width: 100%; height: auto; } ul { list-style: none; padding: 0; margin: .4rem 0; }
.pass { color: var(--good); } .differ { color: var(--other); } .badge { font-weight: 600; white-space: nowrap; }
"""
FAMILIES = (
    ("fig7", "Real tables"),
    ("fig10", "Unions, synthetic"),
    ("fig11", "Joins, synthetic"),
    ("fig12", "The unbiased join estimator, without noise"),
    ("", "Ours"),
)


def write_page(made: list[Reproduced], out: Path) -> Path:
    """`index.html` beside the figures."""
    groups: dict[str, list[Reproduced]] = {}
    for done in made:
        groups.setdefault(_family(done.name), []).append(done)
    passed = sum(done.verdict == "pass" for done in made)
    checks = [check for done in made for check in done.checks]
    held = sum(check.passed for check in checks)
    commits = ", ".join(sorted({done.commit for done in made}))
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>Saibot: every figure again</title><style>{STYLE}</style></head><body>",
        "<h1>Every figure again</h1>",
        "<p class='about'>The figures of the Saibot paper and ours, each run anew and checked against what it should show. "
        "<span class='badge pass'>pass</span>: the shape is the paper's. <span class='badge differ'>differ</span>: it is "
        "not, and the reason stands beside it.</p>",
        f"<p>{passed} of {len(made)} figures have the expected shape in every point; {held} of {len(checks)} checks hold. "
        f"<span class='small'>Code at {escape(commits)}.</span></p>",
        _overview(made),
    ]
    for family, members in groups.items():
        parts.append(f"<h2>{escape(family)}</h2><div class='grid'>")
        parts += [_article(done) for done in members]
        parts.append("</div>")
    parts.append("</body></html>\n")
    path = out / "index.html"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def _family(name: str) -> str:
    head = "fig7" if name in ("fig7", "fig8", "fig9") else name[:-1]
    return next(title for key, title in FAMILIES if key in (head, ""))


def _overview(made: list[Reproduced]) -> str:
    rows = "".join(
        f"<tr><td><a href='#{done.name}'>{done.name}</a></td><td>{escape(done.title)}</td>"
        f"<td class='badge {done.verdict}'>{done.verdict}</td></tr>"
        for done in made
    )
    return f"<details><summary>All figures</summary><table>{rows}</table></details>"


def _article(done: Reproduced) -> str:
    image = next(path for path in done.files if path.suffix == ".png")
    lines = "".join(
        f"<li><span class='{'pass' if check.passed else 'differ'}'>{'✓' if check.passed else '≠'}</span> "
        f"{escape(check.name)} <span class='small'>{escape(check.reason)}</span></li>"
        for check in done.checks
    )
    beside = ", ".join(path.name for path in done.files if path.suffix in (".csv", ".svg"))
    wide = " class='wide'" if _is_wide(image) else ""
    return (
        f"<article id='{done.name}'{wide}><h3>{done.name}. {escape(done.title)} "
        f"<span class='badge {done.verdict}'>{done.verdict}</span></h3><p>{escape(done.shows)}</p>"
        f"<img src='{escape(image.name)}' alt='{escape(done.title)}' loading='lazy'><ul>{lines}</ul>"
        f"<p class='small'>Numbers and drawing: {escape(beside)}. Configuration {done.configuration}, "
        f"code at {escape(done.commit)}.</p></article>"
    )


def _is_wide(image: Path) -> bool:
    """Drawn with several panels beside each other: it gets the page's whole width. Size from the PNG's own header."""
    with image.open("rb") as file:
        head = file.read(24)
    width, height = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    return width > 1.9 * height
