"""A built site, looked at as a browser would: every link and anchor leads somewhere within it, nothing is loaded from
elsewhere, and no page brings script or style of its own along."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"img": "src", "script": "src", "link": "href", "source": "src", "iframe": "src", "video": "src", "object": "data"}


def problems(folder: Path) -> list[str]:
    return [
        f"{page.relative_to(folder)}: {told}" for page in sorted(folder.rglob("*.html")) for told in _problems(folder, page)
    ]


def counts(folder: Path) -> dict[str, int]:
    """How many pages and links there are."""
    read = [_read(page) for page in folder.rglob("*.html")]
    inner = [link for page in read for _, link in page.links if not urlsplit(link).scheme]
    return {"pages": len(read), "links within": len(inner), "with an anchor": sum("#" in link for link in inner)}


@dataclass
class _Read(HTMLParser):
    """What a page refers to, and what can be referred to on it."""

    ids: set[str] = field(default_factory=set)
    links: list[tuple[str, str]] = field(default_factory=list)  # element, address
    inline: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        facts = {name: value or "" for name, value in attributes}
        if "id" in facts:
            self.ids.add(facts["id"])
        if tag == "a" and facts.get("href"):
            self.links.append((tag, facts["href"]))
        if tag in LOADED and facts.get(LOADED[tag]):
            self.links.append((tag, facts[LOADED[tag]]))
        if "style" in facts or tag == "style" or (tag == "script" and "src" not in facts):
            self.inline.append(f"inline {'script' if tag == 'script' else 'style'} in <{tag}>")
        self.inline += [f"handler {name} in <{tag}>" for name in facts if name.startswith("on")]


@cache
def _read(page: Path) -> _Read:
    made = _Read()
    made.feed(page.read_text(encoding="utf-8"))
    return made


def _problems(folder: Path, page: Path) -> Iterator[str]:
    read = _read(page)
    yield from sorted(set(read.inline))
    for tag, link in read.links:
        parts = urlsplit(link)
        if parts.scheme in ("http", "https", "mailto") or parts.netloc:
            if tag != "a":
                yield f"<{tag}> loads {link} from elsewhere"
            continue
        if parts.path.startswith("/"):
            if link != "/":  # the way back to the platform, which the page's script shows where there is one
                yield f"{link} leads out of the site"
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if not target.is_file() or folder.resolve() not in target.resolve().parents:
            yield f"{link} leads nowhere"
        elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in _read(target).ids:
            yield f"{link}: there is no such place on that page"
    for style in re.findall(r"url\(([^)]*)\)", " ".join(read.inline)):
        yield f"style loads {style}"


def style_problems(folder: Path) -> list[str]:
    """Stylesheets and scripts fetch nothing from elsewhere either."""
    found = []
    for path in sorted([*folder.rglob("*.css"), *folder.rglob("*.js")]):
        if path.name == "index.js":
            continue  # words of the guide, which may well name addresses
        text = path.read_text(encoding="utf-8")
        found += [
            f"{path.relative_to(folder)} names {address}" for address in re.findall(r"https?://[^\s\"')]+|@import", text)
        ]
    return found
