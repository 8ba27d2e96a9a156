"""A whole platform inside this process: no port, no network, the same code as on a server.

    with embedded() as platform:                                        # speaks as the admin
        provider = Provider(platform.as_account("clinic", ["provider"]), "ledger")
        requester = Requester(platform.as_account("analyst", ["requester"]))

For tests, notebooks, demos, and for trying things out before anything leaves the machine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from saibot.client.in_process import ADDRESS, running
from saibot.client.platform import Platform
from saibot.errors import SaibotError
from saibot.extras import how_to_install

if TYPE_CHECKING:
    from fastapi import FastAPI

    from saibot.platform import Settings

ADMIN_TOKEN = "admin-token"


@contextmanager
def embedded(where: Settings | Path | str | None = None) -> Iterator[Platform]:
    """A platform that lives as long as the block, spoken to as its admin.

    `where` is its folder, which may be that of an earlier time; or settings; or nothing, for one that is gone afterwards.
    """
    if where is None:
        with tempfile.TemporaryDirectory(prefix="saibot-") as folder, embedded(folder) as platform:
            yield platform
        return
    settings = embedded_settings(Path(where)) if isinstance(where, str | Path) else where
    app = make_app(settings)
    with running(app) as transport:
        token = app.state.platform.first_admin_token or admin_token(settings.data)
        yield Platform(ADDRESS, token, transport)


def embedded_settings(folder: Path) -> Settings:
    """Everything in one folder, whatever the environment says about servers; only failures are logged."""
    from saibot.platform import Settings

    return Settings(data=folder, database=None, files=None, log_level="error")


def make_app(settings: Settings) -> FastAPI:
    """The platform's web application, or a hint where the packages for it are missing."""
    try:
        from saibot.platform import create_app

        return create_app(settings)
    except ImportError as problem:
        if problem.name is None or problem.name.startswith("saibot"):
            raise
        raise SaibotError(f"a platform needs the package {problem.name!r}.", hint=how_to_install("platform")) from None


def admin_token(folder: Path) -> str:
    """The admin's token, as the platform's first start wrote it down."""
    try:
        return (folder / ADMIN_TOKEN).read_text(encoding="utf-8").strip()
    except OSError:
        raise SaibotError(
            f"there is no admin token in {folder}.", hint="It was written at the first start; whoever moved it has it."
        ) from None
