"""The guide that ships with the package: one archive, written by `make site`, served at /help as it is.

Its pages have no script but files that the archive lists by their digests, so the policy allows those and nothing else:
not even another script of this server. Members are packed as gzip packs, and are sent without being unpacked.
"""

from __future__ import annotations

import json
import struct
import threading
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from starlette.requests import Request
from starlette.responses import Response

from saibot.platform.errors import NotFound

ARCHIVE = Path(__file__).parent / "help.zip"
MANIFEST = "manifest.json"
FIRST = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_GZIP = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # of a member: signature, and how long its name and its extra field are


@dataclass(frozen=True)
class _Opened:
    """The archive as it was at a moment: its list of members, and the policy for them."""

    stamp: tuple[int, int]
    archive: zipfile.ZipFile
    policy: str


class HelpSite:
    """`respond(request, name)` is the file of that name; `there` is false where the package came without its guide.

    An archive that is written anew is read anew: whoever works on the guide need not start the platform again.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._given = path
        self._lock = threading.Lock()
        self._opened: _Opened | None = None

    @property
    def path(self) -> Path:
        return self._given or ARCHIVE

    @property
    def there(self) -> bool:
        return self.path.is_file()

    def respond(self, request: Request, name: str) -> Response:
        kind = TYPES.get(PurePosixPath(name).suffix)
        with self._lock:
            opened = self._open()
            member = opened.archive.NameToInfo.get(name)
            if member is None or kind is None:
                raise NotFound("the guide has no such page.", hint="It begins at /help.")
            etag = f'"{member.CRC:08x}-{member.file_size:x}"'
            headers = {"etag": etag, "cache-control": "no-cache", "content-security-policy": opened.policy}
            if request.headers.get("if-none-match") == etag:
                return Response(status_code=304, headers=headers)
            packed = member.compress_type == zipfile.ZIP_DEFLATED
            if packed and "gzip" in request.headers.get("accept-encoding", ""):
                headers |= {"content-encoding": "gzip", "vary": "accept-encoding"}
                return Response(_as_gzip(opened.archive, member), media_type=kind, headers=headers)
            return Response(opened.archive.read(member), media_type=kind, headers=headers)

    def _open(self) -> _Opened:
        facts = self.path.stat()
        stamp = (facts.st_mtime_ns, facts.st_size)
        if self._opened is None or self._opened.stamp != stamp:
            archive = zipfile.ZipFile(self.path)
            scripts = json.loads(archive.read(MANIFEST))["scripts"]
            policy = _POLICY.format(scripts=" ".join(f"'{digest}'" for digest in scripts) or "'none'")
            self._opened = _Opened(stamp, archive, policy)
        return self._opened


def _as_gzip(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """What lies in the archive between a member's header and the next, with the frame that gzip puts around it."""
    file = archive.fp
    assert file is not None
    file.seek(member.header_offset)
    _, name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    file.seek(member.header_offset + _LOCAL_HEADER.size + name + extra)
    return _GZIP + file.read(member.compress_size) + struct.pack("<II", member.CRC, member.file_size & 0xFFFFFFFF)
