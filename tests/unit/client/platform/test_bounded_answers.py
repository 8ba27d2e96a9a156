"""An answer that unfolds beyond all measure is refused while it comes in."""

from __future__ import annotations

import gzip

import httpx
import pytest

from saibot.client import transport
from saibot.client.errors import PlatformUnreachable
from saibot.client.transport import Wire


def answering(content: bytes) -> httpx.MockTransport:
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    return httpx.MockTransport(lambda request: httpx.Response(200, headers=headers, content=gzip.compress(content)))


def test_a_compressed_answer_is_read_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "LARGEST_ANSWER", 100_000)
    assert Wire("https://platform.example", transport=answering(b'{"a": 1}')).json("GET", "/v1/me") == {"a": 1}
    bomb = Wire("https://platform.example", transport=answering(b" " * 50_000_000))
    with pytest.raises(PlatformUnreachable, match="answers with more than"):
        bomb.json("GET", "/v1/me")
