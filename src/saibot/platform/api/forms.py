"""Forms that somebody sends: few fields, short ones, and files that go to the disk once they are no longer small.

The reader of forms under us decodes fields as the form asks it to, by codecs that take the square of a text's length among
them; keeps files of a megabyte in memory; and keeps whatever it is sent. Here a form is in UTF-8, and of a file that does
not begin as it should only its beginning is kept: a table that is sent by mistake must not touch the disk.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from saibot.platform.api.uploads import copied
from saibot.platform.errors import TooLarge, Unusable, WrongMediaType
from saibot.platform.reading import LARGE
from saibot.platform.service import Platform
from saibot.platform.validation import MAGIC

FORM_BYTES = 64 << 10  # of all fields that are no files, and of what stands between parts
FIELDS = 100
TOLD = 64  # bytes that are kept of a file that is refused by them: enough to say what is wrong
MULTIPART, URLENCODED = "multipart/form-data", "application/x-www-form-urlencoded"


@asynccontextmanager
async def form_of(
    request: Request, *, most_of_files: int = 0, files: int = 0, begins: bytes = b""
) -> AsyncIterator[FormData]:
    """The fields of a form, and at most so many files with so many bytes together, each beginning so."""
    kind, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    parser: FormParser | MultiPartParser
    stream = _bounded(request, most_of_files + FORM_BYTES)
    if kind.strip() == MULTIPART and "charset" not in parameters:
        parser = _Multipart(request.headers, stream, max_files=files, max_fields=FIELDS, max_part_size=FORM_BYTES)
        parser.begins = begins
    elif kind.strip() == URLENCODED:
        parser = FormParser(request.headers, stream, max_fields=FIELDS, max_part_size=FORM_BYTES)
    else:
        raise WrongMediaType(f"this is no form as {MULTIPART}, in UTF-8.", hint="Send it from the page, or see /docs.")
    try:
        fields = await parser.parse()
    except MultiPartException:
        raise Unusable("the form cannot be read, or has too many parts.", hint="Send it again.") from None
    except ClientDisconnect:
        raise Unusable("the form was cut off.", hint="Send it again; nothing was stored.") from None
    try:
        yield fields
    finally:
        await fields.close()


def sketches_of(request: Request, here: Platform) -> AbstractAsyncContextManager[FormData]:
    """The form of a search: a training and a test sketch beside what is asked."""
    return form_of(request, most_of_files=2 * here.settings.max_upload_bytes, files=2, begins=MAGIC)


async def file_of(fields: FormData, name: str, here: Platform, held: ExitStack) -> bytes | Path | None:
    """One file of a form, in memory if it is small; None where none was chosen."""
    part, limit = fields.get(name), here.settings.max_upload_bytes
    if not isinstance(part, UploadFile) or not (part.filename or part.size):
        return None
    size = part.size or 0
    if size > limit:
        raise TooLarge(f"{name} has more than {limit:,} bytes, the most allowed.", hint="Release fewer features or keys.")
    return await part.read() if size <= LARGE else await run_in_threadpool(copied, part.file, here.incoming, held)


class _Multipart(MultiPartParser):
    spool_max_size = LARGE
    begins = b""

    def on_part_begin(self) -> None:
        super().on_part_begin()
        self._first = bytearray()
        self._refused = False

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._current_part.file is not None and self.begins:
            if self._refused:
                return
            if len(self._first) < len(self.begins):
                self._first += data[start : min(end, start + TOLD)]
                if not self._first.startswith(self.begins[: len(self._first)]):
                    self._refused = True
                    end = min(end, start + TOLD)
        super().on_part_data(data, start, end)


async def _bounded(request: Request, most: int) -> AsyncGenerator[bytes, None]:
    read = 0
    async for chunk in request.stream():
        read += len(chunk)
        if read > most:
            raise TooLarge(f"this is more than the {most:,} bytes that are accepted.", hint="Send less.")
        yield chunk
