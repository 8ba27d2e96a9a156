"""Answers unfold while they come in, a little at a time: what a platform sends decides nothing about memory here.

A kilobyte can unfold to gigabytes, in one step or by being packed twice. So one way of packing is read, once, and never more
at a time than whoever reads has taken.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import httpx

from saibot.client.errors import PlatformUnreachable

AT_A_TIME = 64 << 10
LONGEST_EVENT = 4 << 20
NOT_PACKED = {"Accept-Encoding": "identity"}
_GZIP = 16 + zlib.MAX_WBITS  # as zlib wants it said


def unpack_slowly(response: httpx.Response) -> None:
    """A hook of httpx: from here on the answer is read unpacked, in pieces of a limited size."""
    packing = [name.strip().lower() for name in response.headers.get("content-encoding", "").split(",") if name.strip()]
    if packing in ([], ["identity"]):
        return
    asked_for = response.request.headers.get("accept-encoding") != NOT_PACKED["Accept-Encoding"] or not response.is_success
    if packing not in (["gzip"], ["x-gzip"]) or not asked_for:
        raise PlatformUnreachable(
            "the platform answers packed in a way that was not asked for.", hint="It may be no Saibot platform."
        )
    del response.headers["content-encoding"]
    assert isinstance(response.stream, httpx.SyncByteStream)
    response.stream = _Unpacked(response.stream, response.request)


class _Unpacked(httpx.SyncByteStream):
    def __init__(self, packed: httpx.SyncByteStream, request: httpx.Request) -> None:
        self._packed, self._request = packed, request

    def __iter__(self) -> Iterator[bytes]:
        unpacker = zlib.decompressobj(_GZIP)
        after = 0
        try:
            for part in self._packed:  # to its end: a connection that was not read to the end serves for nothing else
                while part and not unpacker.eof:
                    yield unpacker.decompress(part, AT_A_TIME)
                    part = unpacker.unconsumed_tail or unpacker.unused_data
                after += len(part)
                if after > AT_A_TIME:
                    return
        except zlib.error as problem:
            raise httpx.DecodingError(str(problem), request=self._request) from None

    def close(self) -> None:
        self._packed.close()


def content(response: httpx.Response, *, most: int, whose: str) -> bytes:
    """The whole answer, which has so many bytes at most."""
    found = bytearray()
    for part in response.iter_bytes():
        found += part
        if len(found) > most:
            raise PlatformUnreachable(
                f"{whose} answers with more than {most / (1 << 20):g} MiB.", hint="It may be no Saibot platform."
            )
    return bytes(found)


def endless_events() -> PlatformUnreachable:
    return PlatformUnreachable("the platform's events have no end.", hint="It may be no Saibot platform.")


def lines(response: httpx.Response) -> Iterator[str]:
    """Line by line as they arrive; a line that does not end is refused."""
    left = b""
    for part in response.iter_bytes():
        *whole, left = (left + part).split(b"\n")
        yield from (line.rstrip(b"\r").decode("utf-8", "replace") for line in whole)
        if len(left) > LONGEST_EVENT:
            raise endless_events()
    if left:
        yield left.decode("utf-8", "replace")
