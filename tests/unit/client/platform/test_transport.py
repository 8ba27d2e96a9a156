"""How the client speaks HTTP: when it tries again, what a refusal becomes, where a token goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import httpx
import pytest

from saibot.client import NotAllowed, NotFound, PlatformBusy, PlatformError, PlatformUnreachable
from saibot.client.transport import ATTEMPTS, LONGEST_WAIT, Wire, retry_after
from saibot.errors import InvalidInput

Answer = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


class Script:
    """Answers one after the other; the last one for ever. Remembers what was asked and how long was waited."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.asked, self.waited = list(answers), [], []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer

    def wire(self, token: str | None = None) -> Wire:
        return Wire("http://platform.test", token, httpx.MockTransport(self), sleep=self.waited.append)


def refusal(status: int, message: str = "no.", hint: str | None = None, **headers: str) -> httpx.Response:
    body = {"error": {"code": "refused", "message": message, "hint": hint, "details": {"why": 1}}}
    return httpx.Response(status, json=body, headers=headers)


@pytest.mark.parametrize(
    "passing", [refusal(503), refusal(502), refusal(429), httpx.ReadError("cut"), httpx.ConnectError("no")]
)
def test_a_read_is_tried_again_until_it_succeeds(passing):
    script = Script(passing, passing, httpx.Response(200, json={"ok": True}))
    assert script.wire().json("GET", "/v1/me") == {"ok": True}
    assert len(script.asked) == 3 and len(script.waited) == 2


def test_waits_grow_have_jitter_and_end():
    script = Script(refusal(503))
    with pytest.raises(PlatformError):
        script.wire().send("GET", "/v1/me")
    assert len(script.asked) == ATTEMPTS
    limits = [min(0.25 * 2**i, LONGEST_WAIT) for i in range(ATTEMPTS - 1)]
    assert all(limit / 2 <= wait <= limit for wait, limit in zip(script.waited, limits, strict=True))


def test_the_platform_says_how_long_to_wait():
    script = Script(refusal(429, **{"retry-after": "7"}), httpx.Response(200, json=1))
    script.wire().json("GET", "/")
    assert script.waited == [7.0]
    soon = httpx.Response(429, headers={"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"})
    assert retry_after(soon) == 0.0 and retry_after(httpx.Response(429, headers={"retry-after": "soon"})) is None


def test_a_wait_that_is_too_long_is_not_waited_for():
    script = Script(refusal(429, "come back tomorrow.", **{"retry-after": "86400"}))
    with pytest.raises(PlatformBusy) as refused:
        script.wire().send("GET", "/")
    assert refused.value.retry_after == 86400 and script.waited == []


@pytest.mark.parametrize("problem", [httpx.ReadTimeout("slow"), refusal(503), refusal(500)])
def test_what_might_be_done_twice_is_not_tried_again(problem):
    script = Script(problem)
    with pytest.raises(PlatformError):
        script.wire().send("POST", "/v1/searches")
    assert len(script.asked) == 1


@pytest.mark.parametrize("problem", [httpx.ConnectError("no"), refusal(429)])
def test_what_never_got_in_is_tried_again_whatever_it_was(problem):
    script = Script(problem, httpx.Response(202, json={}))
    assert script.wire().send("POST", "/v1/searches").status_code == 202


def test_an_upload_known_by_its_digest_is_tried_again():
    script = Script(httpx.ReadError("cut"), httpx.Response(201, json={}))
    assert script.wire().send("POST", "/v1/datasets", repeatable=True, content=b"x").status_code == 201
    assert [request.content for request in script.asked] == [b"x", b"x"]


@pytest.mark.parametrize("status, kind", [(401, NotAllowed), (403, NotAllowed), (404, NotFound), (409, PlatformError)])
def test_a_refusal_keeps_what_the_platform_said(status, kind):
    with pytest.raises(kind) as refused:
        Script(refusal(status, "that is not yours.", "ask")).wire().send("GET", "/")
    error = refused.value
    assert (error.status, error.code, error.message, error.hint, error.details) == (
        status,
        "refused",
        "that is not yours.",
        "ask",
        {"why": 1},
    )


def test_a_refusal_cannot_move_the_cursor_of_a_terminal():
    with pytest.raises(PlatformError) as refused:
        Script(refusal(400, "\x1b[2Jall\r\nis well")).wire().send("GET", "/")
    assert refused.value.message == " [2Jall  is well"


def test_a_stranger_at_the_address_is_told_apart_from_a_platform():
    with pytest.raises(PlatformUnreachable, match="not as a Saibot platform"):
        Script(httpx.Response(200, html="<h1>hello</h1>")).wire().json("GET", "/v1/me")
    with pytest.raises(PlatformError, match="status 418"):
        Script(httpx.Response(418, text="teapot")).wire().json("GET", "/v1/me")
    with pytest.raises(PlatformUnreachable, match="no platform answers"):
        Script(httpx.ConnectError("refused")).wire().json("GET", "/v1/me")


def test_a_token_goes_with_every_call_and_follows_no_redirect():
    script = Script(httpx.Response(307, headers={"location": "http://elsewhere.test/"}))
    with pytest.raises(PlatformError):
        script.wire("saibot_secret").send("GET", "/v1/me")
    assert [request.url.host for request in script.asked] == ["platform.test"]
    assert script.asked[0].headers["authorization"] == "Bearer saibot_secret"


@pytest.mark.parametrize(
    "url", ["platform.test", "ftp://platform.test", "http://", "http://me:secret@x.test", "http://x/?q=1", ""]
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(InvalidInput, match="no platform address"):
        Wire(url)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "naïve"])
def test_a_token_that_is_none_is_refused(token):
    with pytest.raises(InvalidInput, match="token"):
        Wire("http://x.test", token)


def pages(*contents: Iterable[int]) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        page = int(request.url.params.get("cursor", 0))
        following = page + 1 if page + 1 < len(contents) else None
        return httpx.Response(200, json={"items": list(contents[page]), "next": following})

    return answer


def test_a_list_is_read_page_by_page_and_only_as_far_as_needed():
    script = Script(pages([1, 2], [3], [4]))
    items = script.wire().pages("/v1/datasets", {"q": "delay", "domain": None})
    assert next(items) == 1 and len(script.asked) == 1
    assert list(items) == [2, 3, 4]
    assert [dict(request.url.params).get("q") for request in script.asked] == ["delay"] * 3
    assert all("domain" not in request.url.params for request in script.asked)


def test_a_list_that_leads_in_circles_ends():
    script = Script(lambda request: httpx.Response(200, json={"items": [1], "next": "same"}))
    assert list(script.wire().pages("/v1/datasets")) == [1, 1]
