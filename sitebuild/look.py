"""The platform's own colours for the site, which has a button for dark ones where the platform follows the system alone."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "saibot"
FAVICON = SOURCE / "platform" / "pages" / "static" / "favicon.svg"
_DARK = re.compile(r"@media \(prefers-color-scheme: dark\) \{\s*:root \{(.*?)\}\s*\}", re.DOTALL)


def stylesheet() -> str:
    """report.css, with the dark colours under the system's wish and under the reader's."""
    text = (SOURCE / "report" / "static" / "report.css").read_text(encoding="utf-8")
    found = _DARK.search(text)
    if found is None:
        raise ValueError("report.css has no dark colours where they are looked for")
    dark = found[1].strip()
    both = (
        f'@media (prefers-color-scheme: dark) {{ :root:not([data-scheme="light"]) {{ {dark} }} }}\n'
        f':root[data-scheme="dark"] {{ color-scheme: dark; {dark} }}\n'
        ':root[data-scheme="light"] { color-scheme: light; }\n'
    )
    return text[: found.start()] + both + text[found.end() :]
