"""The OpenAPI document is true: whatever it allows is answered with what it promises, and nothing breaks the platform."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks as kept

from saibot.platform import Settings

CHECKS = [
    kept.not_a_server_error,
    kept.status_code_conformance,
    kept.content_type_conformance,
    kept.response_schema_conformance,
    kept.response_headers_conformance,
]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, start_over_http: Any) -> Iterator[Any]:
    yield from start_over_http(
        Settings(
            data=tmp_path_factory.mktemp("schema") / "data",
            workers=1,
            pages=False,
            max_upload_bytes=1 << 16,
            log_level="error",
            write_burst=1_000_000,
            read_burst=1_000_000,
        )
    )


@pytest.mark.parametrize("signed_in", [True, False])
def test_every_answer_to_what_the_document_allows_is_documented(
    platform: Any, sketches: dict[str, bytes], verbs: Any, full: bool, signed_in: bool
) -> None:
    everyone = platform.account("admin", "provider", "requester")
    verbs.publish(everyone, sketches["good"])
    headers = {"Authorization": everyone.headers["Authorization"]} if signed_in else {}
    schema = schemathesis.openapi.from_url(f"{everyone.base_url}/openapi.json")
    examples = 300 if full else 12 if signed_in else 3
    operations = 0
    for found in schema.get_all_operations():

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=not full,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(found.ok().as_strategy())
        def probe(case: Any) -> None:
            answer = case.call_and_validate(headers=headers, checks=CHECKS, timeout=120)
            if answer.status_code >= 400:
                error = answer.json()["error"]
                assert set(error) == {"code", "message", "hint", "details"} and error["hint"] and error["message"]

        probe()
        operations += 1
    assert operations >= 25
    assert everyone.get("/healthz").json()["status"] == "ok"


def test_unknown_addresses_and_methods_have_the_same_shape(platform: Any) -> None:
    client = platform.client()
    for method, path, status in (
        ("GET", "/nowhere", 404),
        ("GET", "/v1/nowhere", 404),
        ("PATCH", "/v1/datasets", 405),
        ("POST", "/healthz", 405),
        ("GET", "/v1/datasets?limit=0", 422),
        ("GET", "/v1/datasets?limit=many", 422),
        ("GET", "/v1/datasets?cursor=%00", 422),
        ("GET", "/v1/datasets?cursor=WyJhIiwxXQ&sort=rows", 422),
        ("GET", "/v1/sketches/short", 422),
        ("GET", "/v1/domains/no%20id/1", 422),
        ("GET", "/v1/domains/x/0", 422),
    ):
        answer = client.request(method, path)
        assert answer.status_code == status, path
        error = answer.json()["error"]
        assert set(error) == {"code", "message", "hint", "details"} and error["hint"], path


def test_documentation_needs_no_other_server(platform: Any) -> None:
    page = platform.client().get("/docs")
    assert page.status_code == 200 and "/v1/datasets" in page.text
    assert "http://" not in page.text and "https://" not in page.text and "<script" not in page.text
