"""The built site as one file for the platform, which serves it at /help: every script is named by its digest, in the page
that loads it and in a list from which the platform makes its content security policy."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import zipfile
from pathlib import Path, PurePosixPath

from PIL import Image

MANIFEST = "manifest.json"
_SCRIPT = re.compile(r'<script src="([^"]+)"')
_COLOURS = 128
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same site is the same file, whenever it is packed


def pack(folder: Path, target: Path) -> None:
    scripts = {path.relative_to(folder).as_posix(): _digest(path.read_bytes()) for path in sorted(folder.rglob("*.js"))}
    manifest = {"format": "saibot-help", "version": 1, "scripts": sorted(scripts.values())}
    target.parent.mkdir(parents=True, exist_ok=True)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        _write(archive, MANIFEST, json.dumps(manifest).encode())
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and not name.startswith("sitemap"):
                _write(archive, name, _packed(name, path.read_bytes(), scripts))
    target.write_bytes(made.getvalue())


def _packed(name: str, content: bytes, scripts: dict[str, str]) -> bytes:
    if name.endswith(".png"):
        return _smaller(content)
    if not name.endswith(".html"):
        return content
    folder = PurePosixPath(name).parent

    def digest_of(address: str) -> str:
        parts: list[str] = []
        for part in (folder / address).parts:
            parts = parts[:-1] if part == ".." else [*parts, part]
        return scripts["/".join(parts)]

    text = content.decode("utf-8")
    text = _SCRIPT.sub(lambda found: f'{found[0]} integrity="{digest_of(found[1])}"', text)
    text = re.sub(r'data-index="([^"]+)"', lambda found: f'{found[0]} data-index-digest="{digest_of(found[1])}"', text)
    return text.encode("utf-8")


def _digest(content: bytes) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content).digest()).decode()


def _smaller(content: bytes) -> bytes:
    """Plots and screenshots have few colours: a palette halves them, and nobody sees it."""
    with Image.open(io.BytesIO(content)) as picture:
        if picture.mode == "P":
            return content
        plain = Image.new("RGB", picture.size, "white")
        plain.paste(picture, mask=picture.getchannel("A") if picture.mode == "RGBA" else None)
        made = io.BytesIO()
        plain.quantize(_COLOURS, dither=Image.Dither.NONE).save(made, "PNG", optimize=True)
    return min(made.getvalue(), content, key=len)


def _write(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_STORED if name.endswith(".png") else zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content)
