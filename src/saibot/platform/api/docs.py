"""`/docs`: the OpenAPI document for people. No script, nothing from another server.

With pages it is one of them (`pages/views/docs.py`); a platform that serves the API alone shows it by itself.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from jinja2 import Environment

from saibot.report.html import environment, offline_page

PACKAGE = "saibot.platform.api"


def add_to(app: FastAPI) -> None:
    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return HTMLResponse(page(app.openapi()), headers=policy)


def page(document: dict[str, Any]) -> str:
    return offline_page("http.html", package=PACKAGE, created="", document=document, groups=_groups(document))


def operations(document: dict[str, Any]) -> str:
    """What there is to call and which shapes come back, as a piece of a page."""
    return _templates().get_template("operations.html").render(document=document, groups=_groups(document))


def _groups(document: dict[str, Any]) -> dict[str, list[tuple[str, str, dict[str, Any]]]]:
    groups: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["other"])[0]
            groups.setdefault(tag, []).append((method, path, operation))
    return groups


@cache
def _templates() -> Environment:
    return environment(PACKAGE)
