"""Answers: JSON, pages of lists, files in ranges, and the errors that each route documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel

from saibot.platform.api.schemas import Error
from saibot.platform.pagination import Page, write_cursor
from saibot.wire import Shape

CHUNK = 1 << 18  # so much of a file is in memory for each of those who download it
_WORDS = {
    400: "A request that is not HTTP as expected.",
    401: "No token, or one that is unknown, revoked or expired.",
    403: "The token's roles do not cover this.",
    404: "Not there, or not for this caller.",
    405: "The address does not have this method.",
    409: "What is there contradicts what is asked.",
    413: "Too large.",
    415: "Another media type is expected.",
    416: "The range lies outside the file.",
    422: "Understood, but it cannot be used as given.",
    429: "Too many requests; `Retry-After` says how many seconds to wait.",
    503: "The platform's storage does not answer, or is full; try again.",
}


def described_body(name: str) -> dict[str, Any]:
    """The body of a route that reads it itself, once it knows who sends it: a JSON document of this schema."""
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    return {"requestBody": {"required": True, "content": content}}


def json_answer(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=Shape.to_json)
    return Response(text, status, headers=headers, media_type="application/json")


def page_answer(page: Page) -> Response:
    return json_answer({"items": page.items, "next": write_cursor(page.next)})


def page_of_texts(page: Page) -> Response:
    """The same of items that are JSON text already."""
    cursor = json.dumps(write_cursor(page.next))
    return Response(f'{{"items":[{",".join(page.items)}],"next":{cursor}}}', media_type="application/json")


def documented(
    ok: dict[int, type[BaseModel] | None], *problems: int, extra: dict[int, dict[str, Any]] | None = None
) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route: what it answers, and which errors it knows besides those that every route knows."""
    found: dict[int | str, dict[str, Any]] = {}
    for status, model in ok.items():
        found[status] = {"model": model} if model is not None else {}
    for status in sorted({*problems, 401, 422, 429, 503}):
        found[status] = {"model": Error, "description": _WORDS[status]}
    found[429]["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."}}
    for status, facts in (extra or {}).items():
        found[status] = found.get(status, {}) | facts
    return found


def is_unchanged(request: Request, etag: str) -> bool:
    """Whether the caller has this very content already."""
    return f'"{etag}"' in request.headers.get("if-none-match", "")


def is_download(request: Request, etag: str) -> bool:
    """Whether an answer to this sends content. Each part counts: whoever asks for all but one byte would not, otherwise."""
    return request.method == "GET" and not is_unchanged(request, etag)


def file_answer(
    request: Request,
    file: BinaryIO,
    *,
    etag: str,
    media_type: str,
    name: str,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A file, or the part of it that a Range header asks for."""
    size = file.seek(0, 2)
    headers = {
        "ETag": f'"{etag}"',
        "Accept-Ranges": "bytes",
        "Content-Disposition": f'attachment; filename="{name}"',
        "Cache-Control": "private, max-age=0, must-revalidate",
        **(headers or {}),
    }
    if is_unchanged(request, etag):
        file.close()
        return Response(status_code=304, headers=headers)
    first, last, status = 0, size - 1, 200
    wanted = request.headers.get("range")
    condition = request.headers.get("if-range")
    if wanted is not None and (condition is None or condition == f'"{etag}"'):
        span = _span(wanted, size)
        if span == "outside":
            file.close()
            document = {
                "code": "outside",
                "message": f"the file has {size:,} bytes.",
                "hint": "Ask for a range inside it, or for the whole file without a Range header.",
                "details": {"bytes": size},
            }
            return json_answer({"error": document}, 416, {"Content-Range": f"bytes */{size}"})
        if isinstance(span, tuple):
            first, last = span
            status = 206
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    length = last - first + 1
    headers["Content-Length"] = str(length)
    if request.method == "HEAD":
        file.close()
        return Response(status_code=status, headers=headers, media_type=media_type)
    if length <= CHUNK:
        with file:
            file.seek(first)
            return Response(file.read(length), status, headers=headers, media_type=media_type)
    return StreamingResponse(_chunks(file, first, length), status, headers=headers, media_type=media_type)


def _chunks(file: BinaryIO, first: int, length: int) -> Iterator[bytes]:
    with file:
        file.seek(first)
        while length > 0:
            part = file.read(min(CHUNK, length))
            if not part:
                return
            length -= len(part)
            yield part


def _span(header: str, size: int) -> tuple[int, int] | str | None:
    """First and last byte of the one range asked for; None: ignore the header, as HTTP says of what cannot be read."""
    unit, _, text = header.partition("=")
    begin, dash, end = text.strip().partition("-")
    if unit.strip().lower() != "bytes" or not dash or "," in text:
        return None
    begin, end = begin.strip(), end.strip()
    if any(part and not (part.isascii() and part.isdigit() and len(part) < 20) for part in (begin, end)):
        return None
    if begin:
        first, last = int(begin), min(int(end), size - 1) if end else size - 1
        if end and int(end) < int(begin):
            return None
    elif end:
        first, last = max(size - int(end), 0), size - 1
        if int(end) == 0:
            return "outside"
    else:
        return None
    return "outside" if first >= size else (first, last)
