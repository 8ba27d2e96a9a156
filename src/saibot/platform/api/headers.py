"""Heads of requests, before anything reads them.

What libraries under us do with some headers takes the square of their length: Python's own reader of cookies unquotes them
so, and the reader of forms looks for quotes so. A head of 60 kB, which anybody may send, kept everybody else waiting for
seconds.
"""

from __future__ import annotations

import re

LONGEST_KIND = 256  # letters of a content type: a boundary has 70 at most
OWN_COOKIES = 4
# Those that the platform sets: their names begin alike, and they hold nothing that would have to be unquoted.
_OWN = re.compile(rb"(?:__Host-)?saibot_[a-z]{1,20}=[A-Za-z0-9_-]{0,200}")

Headers = list[tuple[bytes, bytes]]


def plain_headers(headers: Headers) -> Headers:
    """The same, of cookies our own alone, and without a content type that is none."""
    found = [(name, value) for name, value in headers if name != b"cookie"]
    own = [one for name, value in headers if name == b"cookie" for one in _own_cookies(value)][:OWN_COOKIES]
    found = [(name, value) for name, value in found if name != b"content-type" or len(value) <= LONGEST_KIND]
    return found + ([(b"cookie", b"; ".join(own))] if own else [])


def _own_cookies(value: bytes) -> list[bytes]:
    return [one.strip() for one in value.split(b";") if _OWN.fullmatch(one.strip())]
