"""Stylesheet, scripts and the chart library: read or made once, compressed once, kept by browsers for ever."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from saibot.platform.errors import Unavailable
from saibot.platform.pages.render import static_file
from saibot.safe_file import write_safely

TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".json": "application/json"}
VEGA = "vega.js"
# In a process of its own: the library brings a whole JavaScript engine along, which the server does not need afterwards.
_BUILD = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"
_FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True)
class StaticFile:
    content: bytes
    compressed: bytes
    type: str
    etag: str

    @classmethod
    def of(cls, name: str, content: bytes) -> StaticFile:
        etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        return cls(content, gzip.compress(content, 6, mtime=0), TYPES[Path(name).suffix], etag)


class StaticFiles:
    """Files of the package by name, and Vega from the installed package, built on first use and kept in `cache`."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._files: dict[str, StaticFile] = {}
        self._lock = threading.Lock()

    def respond(self, request: Request) -> Response:
        """A sync endpoint: building Vega takes seconds, once."""
        file = self.get(request.path_params["name"])
        kept = _FOR_EVER if "v" in request.query_params else "no-cache"
        headers = {"etag": file.etag, "cache-control": kept, "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(file.compressed, media_type=file.type, headers=headers | {"content-encoding": "gzip"})
        return Response(file.content, media_type=file.type, headers=headers)

    def get(self, name: str) -> StaticFile:
        with self._lock:
            if name not in self._files:
                self._files[name] = StaticFile.of(name, self._read(name))
            return self._files[name]

    def _read(self, name: str) -> bytes:
        return self._vega() if name == VEGA else static_file(name).read_bytes()

    def _vega(self) -> bytes:
        path = self._cache / vega_name()
        if path.is_file():
            return path.read_bytes()
        made = subprocess.run([sys.executable, "-c", _BUILD], capture_output=True, timeout=120, check=False)
        if made.returncode or not made.stdout:
            raise Unavailable("the chart library could not be built.", hint="pip install 'saibot[platform]' installs it.")
        write_safely(path, made.stdout, public=True)
        return made.stdout


def vega_name() -> str:
    """Names the version, so that a newer package is built anew."""
    from importlib.metadata import version

    return f"vega-{version('vl-convert-python')}.js"


def vega_address() -> str:
    return f"/static/{VEGA}?v={vega_name().removeprefix('vega-').removesuffix('.js')}"
