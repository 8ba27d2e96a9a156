"""The web application: routes over a platform, one error shape, documentation that needs no other server."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from saibot import __version__
from saibot.platform.api import datasets, docs, domains, enquiries, errors, factors, operations, providers, searches, tokens
from saibot.platform.api.guard import Guard
from saibot.platform.api.schemas import TokenRequest
from saibot.platform.api.shares import Shares
from saibot.platform.service import Platform, open_platform
from saibot.platform.settings import Settings
from saibot.wire import About, Enquire, EnquiryGrant, EnquiryRefusal, NewKey, Question

THREADS = 12  # that answer requests: more would only wait for each other
PAGES = "saibot.platform.pages"
SENT = (About, Enquire, EnquiryGrant, EnquiryRefusal, NewKey, Question, TokenRequest)  # bodies that routes read themselves


def create_app(settings: Settings) -> FastAPI:
    """The application of a platform that is opened here and closed when the application ends."""
    return app_of(open_platform(settings))


def app_of(platform: Platform) -> FastAPI:
    """The application of a platform; `app.state.platform` is the platform. `pages` are mounted where they are there."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        platform.start()
        yield
        platform.close()

    app = FastAPI(title="Saibot", version=__version__, docs_url=None, redoc_url=None, lifespan=life)
    app.state.platform = platform
    app.state.large, app.state.shown = Shares(1), Shares(1)  # large files that are taken in, and that are shown
    app.state.lists, app.state.leaving = Shares(1), Shares(1)  # lists of keys that are written as CSV; what is withdrawn
    errors.add_to(app)
    app.add_middleware(Guard, platform=platform)
    for module in (tokens, providers, domains, datasets, enquiries, factors, searches, operations):
        app.include_router(module.router)
    app.include_router(operations.plain_router)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    if platform.settings.pages and importlib.util.find_spec(PAGES) is not None:
        add_pages = getattr(importlib.import_module(PAGES), "add_to", None)
        if add_pages is not None:
            add_pages(app, platform)
    docs.add_to(app)  # last: where there are pages, theirs comes first
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            summary="Differentially private data search",
            description="Providers publish sketches, requesters search them. Errors have one shape everywhere.",
            routes=app.routes,
        )
        schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes["bearer"] = {"type": "http", "scheme": "bearer", "description": "`saibot_...`, from the platform's admin."}
        document["components"]["schemas"] |= {one.__name__: one.model_json_schema() for one in SENT}
        for path in document["paths"].values():
            for operation in path.values():
                _without_defaults(operation)
        app.openapi_schema = document
    return app.openapi_schema


def _without_defaults(operation: dict[str, Any]) -> None:
    """FastAPI's own shape of validation errors is not ours."""
    schema = operation["responses"].get("422", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if schema.get("$ref", "").endswith("HTTPValidationError"):
        schema["$ref"] = "#/components/schemas/Error"
