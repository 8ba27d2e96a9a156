"""Signing in, forms from elsewhere, and headers: what a browser, or somebody who pretends to be one, can and cannot do."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from saibot.client.in_process import AppTransport, running
from saibot.platform import Settings
from saibot.platform.accounts import SESSIONS_PER_ACCOUNT
from saibot.platform.api.app import app_of
from saibot.platform.errors import NotAllowed, NotSignedIn
from saibot.platform.pages import session
from saibot.platform.service import Platform, open_platform
from tests.support.serving import ADMIN


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Platform:
    return open_platform(Settings(data=tmp_path_factory.mktemp("pages") / "data", log_level="error"))


@pytest.fixture(scope="module")
def app(platform: Platform) -> Iterator[AppTransport]:
    with running(app_of(platform)) as transport:
        yield transport


def new_browser(app: AppTransport, address: str = "http://platform.example") -> httpx.Client:
    """Keeps cookies, follows nothing."""
    return httpx.Client(transport=app, base_url=address)


@pytest.fixture
def browser(app: AppTransport) -> httpx.Client:
    return new_browser(app)


@pytest.fixture(scope="module")
def token(platform: Platform) -> str:
    return str(platform.accounts.create(ADMIN, "st-marys", ["provider", "requester"]).token)


def code_of(page: Any) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', page.text)
    assert found is not None
    return found[1]


def sign_in(browser: httpx.Client, token: str, next: str = "/") -> Any:
    code = code_of(browser.get("/sign-in"))
    return browser.post("/sign-in", data={"csrf": code, "token": token, "next": next})


def test_a_token_signs_in_and_signing_out_ends_it(browser: httpx.Client, token: str) -> None:
    answer = sign_in(browser, token, "/budget")
    assert (answer.status_code, answer.headers["location"]) == (303, "/budget")
    page = browser.get("/budget")
    assert page.status_code == 200 and "st-marys" in page.text
    assert browser.post("/sign-out", data={"csrf": code_of(page)}).status_code == 303
    assert browser.get("/budget").headers["location"] == "/sign-in?next=%2Fbudget"


def test_the_session_cookie_is_out_of_reach_of_scripts_and_other_sites(app: AppTransport, token: str) -> None:
    plain = new_browser(app)
    cookie = sign_in(plain, token).headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "Secure" not in cookie.split(",")[0]
    secure = new_browser(app, "https://platform.example")
    cookie = sign_in(secure, token).headers["set-cookie"]
    assert cookie.startswith("__Host-saibot_session=") and "Secure" in cookie and "HttpOnly" in cookie


def test_behind_a_proxy_the_public_address_decides(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data", log_level="error", public_url="https://saibot.example.org")
    opened = open_platform(settings)
    token = opened.accounts.create(ADMIN, "ana", ["requester"]).token
    with running(app_of(opened)) as app:
        browser = new_browser(app, "http://10.0.0.7:8000")
        page = browser.get("/sign-in")
        kept = page.headers["set-cookie"]
        assert kept.startswith("__Host-") and "Secure" in kept
        cookie = {"cookie": kept.partition(";")[0], "origin": "https://saibot.example.org"}
        sent = {"csrf": code_of(page), "token": token}
        assert browser.post("/sign-in", data=sent, headers=cookie).status_code == 303
        assert browser.post("/sign-in", data=sent, headers=cookie | {"origin": "https://evil.example"}).status_code == 403


@pytest.mark.parametrize("wrong", ["", "saibot_nobody", "x" * 5000, "ü"])
def test_a_wrong_token_is_refused_and_never_shown_again(browser: httpx.Client, wrong: str) -> None:
    answer = sign_in(browser, wrong)
    assert answer.status_code == 401 and "is unknown" in answer.text
    assert "session" not in answer.headers.get("set-cookie", "")
    assert not wrong or wrong not in answer.text


def test_a_revoked_token_ends_its_sessions(browser: httpx.Client, platform: Platform) -> None:
    made = platform.accounts.create(ADMIN, "leaving", ["provider"])
    sign_in(browser, made.token)
    assert browser.get("/budget").status_code == 200
    platform.accounts.revoke(ADMIN, made.id)
    assert browser.get("/budget").status_code == 303
    assert browser.get("/").status_code == 200


@pytest.mark.parametrize("next", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", ""])
def test_signing_in_leads_to_this_site_only(browser: httpx.Client, token: str, next: str) -> None:
    assert sign_in(browser, token, next).headers["location"] == "/?done=signed-in"


@pytest.mark.parametrize("charset", ["punycode", "undefined"])
def test_a_form_of_anybody_chooses_no_codec(browser: httpx.Client, charset: str) -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="token"\r\n\r\n2n7c' + b"a" * 30_000 + b"\r\n--x--\r\n"
    kind = f"multipart/form-data; boundary=x; charset={charset}"
    assert browser.post("/sign-in", content=body, headers={"Content-Type": kind}).status_code == 415


@pytest.mark.parametrize("path", ["/sign-out", "/ask", "/searches/s1/cancel", "/datasets/d1/withdraw", "/tokens/t1/revoke"])
def test_every_form_needs_the_code_of_its_own_session(
    browser: httpx.Client, token: str, path: str, app: AppTransport
) -> None:
    sign_in(browser, token)
    other = new_browser(app)
    foreign = code_of(other.get("/sign-in"))
    for code in (None, "", "00" * 64, "zz", foreign):
        answer = browser.post(path, data={"sure": "yes"} | ({} if code is None else {"csrf": code}))
        assert answer.status_code == 403, (path, code)
    assert browser.get("/budget").status_code == 200, "still signed in"


@pytest.mark.parametrize(
    "header", [{"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
)
def test_a_form_from_another_site_is_refused_even_with_the_right_code(
    browser: httpx.Client, token: str, header: dict[str, str]
) -> None:
    sign_in(browser, token)
    code = code_of(browser.get("/budget"))
    assert browser.post("/sign-out", data={"csrf": code}, headers=header).status_code == 403
    same = {"origin": "http://platform.example", "sec-fetch-site": "same-origin"}
    assert browser.post("/sign-out", data={"csrf": code}, headers=same).status_code == 303


def test_the_code_of_a_form_looks_different_each_time_and_stays_valid() -> None:
    codes = {session.form_code("secret") for _ in range(50)}
    assert len(codes) == 50


def test_the_cookie_is_not_the_token_and_the_token_is_no_cookie(browser: httpx.Client, token: str) -> None:
    sign_in(browser, token)
    (cookie,) = [value for name, value in browser.cookies.items() if name.endswith("saibot_session")]
    assert token not in cookie
    assert browser.get("/v1/me", headers={"Authorization": f"Bearer {cookie}"}).status_code == 401
    browser.cookies.clear()
    browser.cookies.set("saibot_session", token)
    assert browser.get("/account").status_code == 303, "somebody who has a token signs in with it"


def test_a_session_that_was_signed_out_of_opens_nothing_wherever_a_copy_of_it_is(
    browser: httpx.Client, platform: Platform, token: str
) -> None:
    copy = platform.accounts.open_session(token)
    assert platform.accounts.caller_of_session(copy).signed_in
    platform.accounts.close_session(copy)
    with pytest.raises(NotSignedIn, match="has ended"):
        platform.accounts.caller_of_session(copy)
    assert platform.accounts.caller_of(token).signed_in


def test_an_account_has_so_many_sessions_and_revokes_its_own_tokens(platform: Platform) -> None:
    made = platform.accounts.create(ADMIN, "many", ["provider"])
    texts = [platform.accounts.open_session(made.token) for _ in range(SESSIONS_PER_ACCOUNT + 5)]
    for ended in texts[:5]:
        with pytest.raises(NotSignedIn):
            platform.accounts.caller_of_session(ended)
    assert all(platform.accounts.caller_of_session(text).name == "many" for text in texts[5:])
    own = platform.accounts.caller_of_session(texts[-1])
    with pytest.raises(NotAllowed):
        platform.accounts.revoke(own, platform.accounts.create(ADMIN, "other", ["provider"]).id)
    platform.accounts.revoke(own, made.id)
    with pytest.raises(NotSignedIn, match="revoked"):
        platform.accounts.caller_of_session(texts[-1])


def test_the_session_does_not_open_the_api(browser: httpx.Client, token: str) -> None:
    sign_in(browser, token)
    assert browser.get("/v1/me").status_code == 401


def test_pages_forbid_inline_script_framing_and_foreign_sources(browser: httpx.Client) -> None:
    for path in ("/", "/plan", "/nothing-here", "/static/saibot.css"):
        answer = browser.get(path, headers={"accept": "text/html"})
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not re.search(r"<script(?![^>]*(src=|application/json))|\son\w+=|\sstyle=|javascript:", answer.text), path


def test_unknown_addresses_are_pages_to_browsers_and_json_to_programs(browser: httpx.Client) -> None:
    page = browser.get("/nothing-here", headers={"accept": "text/html"})
    assert page.status_code == 404 and "<h1>Nothing here</h1>" in page.text
    for path in ("/nothing-here", "/v1/nothing"):
        assert browser.get(path, headers={"accept": "application/json"}).json()["error"]["code"] == "not_found"
    assert browser.get("/v1/nothing", headers={"accept": "text/html"}).json()["error"]["code"] == "not_found"


@pytest.mark.parametrize(
    "path", ["/datasets/d0", "/datasets/d0/sketch", "/sketches/" + 64 * "0", "/static/../../settings.py"]
)
def test_what_is_not_there_says_so(browser: httpx.Client, path: str) -> None:
    assert browser.get(path, headers={"accept": "text/html"}).status_code == 404


def test_words_of_the_address_are_shown_as_text(browser: httpx.Client) -> None:
    evil = '"><script>alert(1)</script>'
    page = browser.get("/", params={"q": evil, "domain": evil, "provider": evil, "sort": evil})
    assert page.status_code == 200 and "<script>alert" not in page.text
    assert browser.get("/plan", params={"rows": evil, "epsilon": evil}).status_code == 200
    assert "<script>alert" not in browser.get("/?done=" + evil).text


def test_a_cursor_that_was_made_up_is_refused_as_a_page(browser: httpx.Client) -> None:
    page = browser.get("/?cursor=abc", headers={"accept": "text/html"})
    assert page.status_code == 422 and "<h1>" in page.text


def test_an_upload_beyond_the_limit_is_refused_while_it_arrives(tmp_path: Path) -> None:
    small = open_platform(Settings(data=tmp_path / "data", log_level="error", max_upload_bytes=2048))
    token = small.accounts.create(ADMIN, "ana", ["requester"]).token
    with running(app_of(small)) as app:
        browser = new_browser(app)
        sign_in(browser, token)
        code = code_of(browser.get("/ask"))
        large = {"train": ("t.saibot", b"ARROW1" + bytes(200_000))}
        assert browser.post("/ask", data={"csrf": code, "target": "y"}, files=large).status_code == 413


def test_asking_needs_the_role_and_the_page_says_so(browser: httpx.Client, platform: Platform) -> None:
    assert "Sign in to ask" in browser.get("/ask").text
    sign_in(browser, platform.accounts.create(ADMIN, "only-provider", ["provider"]).token)
    page = browser.get("/ask")
    assert "This token cannot ask" in page.text
    assert browser.post("/ask", data={"csrf": code_of(page)}).status_code == 403


def test_an_admin_revokes_a_token_in_the_browser(browser: httpx.Client, platform: Platform) -> None:
    made = platform.accounts.create(ADMIN, "to-go", ["provider"])
    assert platform.first_admin_token is not None
    sign_in(browser, platform.first_admin_token)
    code = code_of(browser.get("/budget"))
    assert browser.post(f"/tokens/{made.id}/revoke", data={"csrf": code}).status_code == 303
    assert "revoked" in browser.get("/admin?done=revoked").text


def test_static_files_carry_their_digest_and_are_kept_for_ever(browser: httpx.Client) -> None:
    address = re.search(r"/static/saibot\.css\?v=\w+", browser.get("/").text)
    assert address is not None
    answer = browser.get(address[0])
    assert "immutable" in answer.headers["cache-control"] and answer.headers["content-encoding"] == "gzip"
    again = browser.get("/static/saibot.css", headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304


def test_the_preview_is_the_one_of_the_command(browser: httpx.Client) -> None:
    from decimal import Decimal

    from saibot.estimate.preview import preview
    from saibot.privacy import Budget, Neighbours
    from saibot.privacy.mechanisms import PlanRequest

    answer = browser.get("/plan/preview.json", params={"rows": 20000, "keys": 200, "features": 2, "epsilon": "0.7"}).json()
    request = PlanRequest(
        mechanism="joint",
        layout="lookup",
        features=2,
        bound_squared=Decimal(2),
        order=2,
        budget=Budget("0.7", "1e-6"),
        neighbours=Neighbours.REPLACE_ONE,
        row_count_public=True,
        rows=20000,
        keys=(201,),
    )
    assert answer["preview"] == preview(request, rows=20000, keys=(200,)).to_json()


@pytest.mark.parametrize(
    "query", ["epsilon=-1", "rows=0", "keys=1e30", "features=many", "neighbours=mine", "delta=2", "bound=0"]
)
def test_a_plan_that_makes_no_sense_is_explained(browser: httpx.Client, query: str) -> None:
    answer = browser.get(f"/plan/preview.json?{query}")
    field = query.partition("=")[0].replace("neighbours", "")  # a list has no wrong choice to mark
    assert answer.status_code == 422 and "note bad" in answer.json()["problem"] and answer.json()["field"] == field
    page = browser.get(f"/plan?{query}")
    assert page.status_code == 200 and page.text.index("note bad") < page.text.index("<form class"), "above the form"
    marked = re.findall(r'name="(\w+)"[^>]*aria-invalid="true" aria-errormessage="wrong"', page.text)
    assert marked == ([field] if field else [])
    assert "not −1" in page.text or "epsilon" not in query


def test_many_who_plan_at_once_do_not_take_all_of_the_server(browser: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from saibot.platform.pages.views import plan

    monkeypatch.setattr(plan, "_WAITING", threading.BoundedSemaphore(1))
    with plan._WAITING:
        answer = browser.get("/plan/preview.json?rows=777")
        assert answer.status_code == 429 and answer.headers["retry-after"] == "1"
    assert browser.get("/plan/preview.json?rows=777").status_code == 200
