"""Descriptions of strangers in Markdown: text, lists, tables and links, and nothing that runs or loads anything."""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markupsafe import Markup

BELOW = 2  # a heading of a description stands below those of the page, one level at a time


@cache
def _parser() -> MarkdownIt:
    """Raw HTML stays text, and of pictures their words: to load them would tell another machine who reads this."""
    made = MarkdownIt("commonmark", {"html": False}).enable("table")
    made.add_render_rule("image", lambda self, tokens, place, options, env: escapeHtml(tokens[place].content))
    return made


def markdown_html(text: str | None) -> Markup:
    parser = _parser()
    tokens = parser.parse(text or "")
    above: list[int] = []
    for token in tokens:
        if token.type == "heading_open":
            level = int(token.tag[1:])
            above = [*(each for each in above if each < level), level]
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(len(above) + BELOW, 6)}"
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("rel", "nofollow noopener noreferrer ugc")
    return Markup(parser.renderer.render(tokens, parser.options, {}))  # markdown-it escapes all text


def markdown_text(text: str | None) -> str:
    """The words alone, for a list."""
    inline = (token for token in _parser().parse(text or "") if token.type == "inline")
    words = (child.content for token in inline for child in token.children or () if child.content)
    return " ".join(" ".join(words).split())
