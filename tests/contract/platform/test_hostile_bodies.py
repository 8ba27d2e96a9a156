"""Who somebody is, then how much they may send, and only then what they sent."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

LARGE = 8 << 20


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/tokens"), ("PUT", "/v1/datasets/d0/about")])
def test_a_body_of_somebody_unknown_is_not_parsed(server: Any, method: str, path: str) -> None:
    body = b'{"name":"x","roles":[' + b'"admin",' * (LARGE // 8) + b'"admin"]}'
    headers = {"Content-Type": "application/json"}
    server.client().get("/v1/me")  # whatever is loaded once
    tracemalloc.start()
    answer = server.client().request(method, path, content=body, headers=headers)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert answer.status_code in (401, 404, 413), answer.text
    assert peak < 6 * LARGE


def test_a_document_larger_than_documents_are_is_refused_from_an_admin_too(server: Any) -> None:
    body = json.dumps({"name": "x" * 200_000, "roles": ["provider"]})
    answer = server.admin.post("/v1/tokens", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413 and answer.json()["error"]["hint"]


def test_a_document_that_is_not_one_is_refused_in_the_shape_of_errors(server: Any) -> None:
    for body in (b"", b"{", b"[]", b'{"name":"x","roles":["king"]}', b"[" * 30_000, b'{"name":"' + b"\xff" * 10 + b'"}'):
        answer = server.admin.post("/v1/tokens", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422, (body[:20], answer.text)
        assert set(answer.json()["error"]) == {"code", "message", "hint", "details"}
