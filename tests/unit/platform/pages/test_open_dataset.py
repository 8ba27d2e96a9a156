"""The pages of an open dataset: its source, no price, and a button with which an admin confirms it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from saibot.client.in_process import running
from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.api.app import app_of
from saibot.platform.service import Platform, open_platform
from saibot.sketch import write_sketch
from tests.support.open_tables import SOURCE, open_sketch

PROVIDER = Caller("census", frozenset({"provider"}), "t")


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    return open_platform(Settings(data=tmp_path / "data", workers=1, log_level="error"))


@pytest.fixture
def browser(platform: Platform) -> Iterator[httpx.Client]:
    with running(app_of(platform)) as transport:
        yield httpx.Client(transport=transport, base_url="http://platform.example", follow_redirects=True)


def words(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", answer.text)).split())


def sign_in(browser: httpx.Client, token: str) -> None:
    code = re.search(r'name="csrf" value="([0-9a-f]+)"', browser.get("/sign-in").text)
    assert code is not None
    browser.post("/sign-in", data={"csrf": code[1], "token": token, "next": "/"}).raise_for_status()


def test_pages_say_open_and_the_source_and_name_no_price(platform: Platform, browser: httpx.Client) -> None:
    dataset, _ = platform.accept(PROVIDER, write_sketch(open_sketch(0)))
    page = words(browser.get(f"/datasets/{dataset.id}"))
    assert SOURCE in page and "no privacy cost" in page and "Nobody is protected" in page
    assert "Nobody has confirmed the source yet" in page and "Confirm the source" not in page
    assert "ε" not in page and "One individual" not in page and "noise of every block" not in page
    listed = browser.get("/").text
    assert SOURCE in listed and ">open</span>" in listed


def test_an_admin_confirms_with_a_button_and_others_have_none(platform: Platform, browser: httpx.Client) -> None:
    dataset, _ = platform.accept(PROVIDER, write_sketch(open_sketch(0)))
    admin = Caller("admin", frozenset({"admin"}), "t")
    sign_in(browser, platform.accounts.create(admin, "census", ["provider"]).token)
    page = browser.get(f"/datasets/{dataset.id}").text
    assert "Confirm the source" not in page
    assert "no privacy cost; source: " + SOURCE in words(browser.get("/budget"))
    code = re.search(r'name="csrf" value="([0-9a-f]+)"', browser.get("/budget").text)
    assert code is not None
    sent = {"csrf": code[1], "digest": dataset.digest}
    assert browser.post(f"/datasets/{dataset.id}/confirm", data=sent).status_code == 403
    sign_in(browser, platform.accounts.create(admin, "warden", ["admin"]).token)
    page = browser.get(f"/datasets/{dataset.id}").text
    assert "Confirm the source" in page
    code = re.search(r'name="csrf" value="([0-9a-f]+)"', page)
    assert code is not None
    done = browser.post(f"/datasets/{dataset.id}/confirm", data={"csrf": code[1], "digest": dataset.digest})
    assert "The source is confirmed" in words(done) and "has confirmed the source" in words(done)
    assert "Confirm the source" not in done.text
