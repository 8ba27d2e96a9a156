"""The pages' templates: the reports' environment with the filters and names that only pages use."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup, escape

from saibot.domains.naming import domain_name
from saibot.platform.errors import NotFound
from saibot.platform.pages.markdown import markdown_html, markdown_text
from saibot.report.html import environment
from saibot.report.picture import STYLESHEET
from saibot.report.places import FILES as MAPS
from saibot.report.places import map_file

ADDRESS = re.compile(r"https?://[\w-]+(\.[\w-]+)*(:\d+)?([/?#][^\s<>\"\\]*)?")  # no other scheme is followed from here
MAILBOX = re.compile(r"[A-Za-z0-9._+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
MINUS = re.compile(r"(?:(?<=\s)|^)-(?=\d)")
STATIC = Path(__file__).parent / "static"


@cache
def pages() -> Environment:
    made = environment("saibot.platform.pages")
    made.filters |= {"prose": prose, "markdown": markdown_html, "without_markdown": markdown_text}
    made.filters |= {"domain_name": domain_name, "domain_title": domain_title, "linked": linked}
    made.globals |= {"asset": asset}
    return made


def render(template: str, **context: Any) -> str:
    return pages().get_template(template).render(**context)


@cache
def asset(name: str) -> str:
    """The address of a static file, with a digest of its content: browsers may keep it for ever."""
    digest = hashlib.sha256(static_file(name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


def static_file(name: str) -> Path:
    """Where a static file lies: the pages' own, the stylesheet that they share with reports, or shapes of a map."""
    maps = (path for name in MAPS if (path := map_file(name)) is not None)
    known = {path.name: path for path in (STYLESHEET, *STATIC.iterdir(), *maps)}
    if name not in known:
        raise NotFound("there is no such file.", hint="The catalogue is at /.")
    return known[name]


def domain_title(id: str) -> str:
    """The name of a key domain at the beginning of a line; an id that is its own name stays as it is."""
    name = domain_name(id)
    return name if name == id else name[:1].upper() + name[1:]


def linked(text: str) -> Markup:
    """What a provider says, as a link where it is the address of a page or a mailbox, and nothing beside that."""
    if ADDRESS.fullmatch(text):
        return Markup('<a href="{}" rel="nofollow noopener noreferrer">{}</a>').format(text, text)
    if MAILBOX.fullmatch(text):
        return Markup('<a href="mailto:{}">{}</a>').format(text, text)
    return escape(text)


def prose(text: str | None) -> Markup:
    """A message as a sentence of a page: it begins with a capital letter, what stands in backticks is code, and numbers
    elsewhere have the minus of other pages."""
    words = text or ""
    parts = re.split(r"`([^`]*)`", words[:1].upper() + words[1:])
    code = Markup("<code>{}</code>")
    told = (code.format(part) if i % 2 else escape(MINUS.sub("−", part)) for i, part in enumerate(parts))
    return Markup("").join(told)
