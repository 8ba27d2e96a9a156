"""The web pages: what a browser shows of the platform. Server-rendered, no inline script, nothing from other machines.

`words`, `format` and `charts` turn the API's JSON into text, numbers and Vega specifications; `result` and `report` show
what a search found; `session` signs people in; `views/` has one module for each page, over the same verbs as the API.
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
