"""The web pages: what a browser shows of the platform. Server-rendered, no inline script, nothing from other machines.

`views/` has one module for each page, over the same verbs as the API; `session` signs people in. Numbers, words, charts, and
all that a result consists of come from `saibot.report`, which offline reports are made of, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

    from saibot.platform.service import Platform


def add_to(app: FastAPI, platform: Platform) -> None:
    """Add the pages to the platform's application."""
    from saibot.platform.pages.mount import mount

    mount(app, platform)
