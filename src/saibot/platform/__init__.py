"""The server: what nobody has to trust. It stores sketches, searches them, and never sees a row.

`create_app(settings)` is the web application, `open_platform(settings)` the verbs without HTTP. `storage/` keeps things,
`jobs/` runs searches in processes of their own, `api/` is HTTP, `pages/` what people look at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from saibot.platform.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from saibot.platform.service import Platform


def open_platform(settings: Settings) -> Platform:
    from saibot.platform import service

    return service.open_platform(settings)


def create_app(settings: Settings) -> FastAPI:
    from saibot.platform.api.app import create_app

    return create_app(settings)


__all__ = ["Settings", "create_app", "open_platform"]
