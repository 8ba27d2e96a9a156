"""The words of every section, for the search box: address, part of the guide, title, heading, text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

_HEADINGS = ("h1", "h2", "h3")
_RULES = re.compile(r"[─━]+")  # lines of tables that commands print
_LONGEST = 8000  # characters of one section: the longest table of commands or settings has about as many


class SearchIndex:
    def __init__(self) -> None:
        self._sections: list[list[str]] = []

    def clear(self) -> None:
        self._sections.clear()

    def add(self, url: str, part: str, title: str, html: str) -> None:
        reader = _Sections()
        reader.feed(html)
        for section in reader.found:
            anchor = f"#{section.id}" if section.id and section.level != "h1" else ""
            text = " ".join(_RULES.sub(" ", "".join(section.text)).split())[:_LONGEST]
            heading = " ".join("".join(section.heading).split()) or title
            self._sections.append([url + anchor, part, title, heading, text])

    def script(self) -> str:
        return f"window.guideSections = {json.dumps(self._sections, ensure_ascii=False, separators=(',', ':'))};\n"


@dataclass
class _Section:
    level: str
    id: str
    heading: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)


class _Sections(HTMLParser):
    """Cuts a page at its headings; the signs that link to a heading are no part of it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[_Section] = []
        self._in_heading = False
        self._in_mark = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        facts = dict(attributes)
        if tag in _HEADINGS:
            self.found.append(_Section(tag, facts.get("id") or ""))
            self._in_heading = True
        self._in_mark = tag == "a" and facts.get("class") == "headerlink"

    def handle_endtag(self, tag: str) -> None:
        if tag in _HEADINGS:
            self._in_heading = False
        if tag == "a":
            self._in_mark = False
        elif self.found and tag in ("p", "li", "td", "th", "pre", "tr", "summary", "label"):
            self.found[-1].text.append(" ")

    def handle_data(self, data: str) -> None:
        if self._in_mark:
            return
        if not self.found:
            self.found.append(_Section("h1", ""))
        part = self.found[-1]
        (part.heading if self._in_heading else part.text).append(data)
