"""Templates: one environment, autoescaping, undefined names are errors, and the filters that every page uses."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from saibot import __version__
from saibot.platform.pages import format, words

STATIC = Path(__file__).parent / "static"


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("saibot.platform.pages"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("number", "signed", "fixed", "percent", "count", "with_error", "size", "day", "minute", "several"):
        made.filters[name] = getattr(format, name)
    made.filters["data"] = data_block
    made.filters["prose"] = prose
    made.globals.update(version=__version__, asset=asset, key_words=words.key_words)
    return made


def render(template: str, **context: Any) -> str:
    return environment().get_template(template).render(**context)


@cache
def asset(name: str) -> str:
    """The address of a static file, with a digest of its content: browsers may keep it for ever."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


def data_block(document: Any) -> Markup:
    """JSON for a `<script type="application/json">`, in which no text can end the element or open a comment."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def prose(text: str | None) -> Markup:
    """A message as a sentence of a page: it begins with a capital letter, and what stands in backticks is code."""
    words = text or ""
    parts = re.split(r"`([^`]*)`", words[:1].upper() + words[1:])
    return Markup("").join(Markup("<code>{}</code>").format(part) if i % 2 else escape(part) for i, part in enumerate(parts))
