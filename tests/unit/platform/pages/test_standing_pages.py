"""Pages say who stands behind a dataset: verified or not, signed or not, a copy, and what is hard to believe."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select

from saibot.client.in_process import running
from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.api.app import app_of
from saibot.platform.service import Platform, open_platform
from saibot.platform.storage.tables import searches
from saibot.sketch import SigningKey, signed, write_sketch
from saibot.sketch.signing import account_proof, successor_proof
from saibot.wire import NewKey
from tests.support.fabricating import drawn_anew, honest_sketch, renamed
from tests.support.serving import ADMIN, signed_in

CLINIC = Caller("clinic", frozenset({"provider"}), "t")
THIEF = Caller("thief", frozenset({"provider"}), "t")


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    return open_platform(Settings(data=tmp_path / "data", workers=1, log_level="error"))


@pytest.fixture
def browser(platform: Platform) -> Iterator[httpx.Client]:
    with running(app_of(platform)) as transport:
        yield httpx.Client(transport=transport, base_url="http://platform.example")


def words(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", answer.text)).split())


def bind(platform: Platform, caller: Caller, key: SigningKey, old: SigningKey | None = None) -> None:
    asked = platform.providers.challenge(caller)
    proof = key.sign(account_proof(asked.challenge, caller.name))
    by_old = None if old is None else old.sign(successor_proof(old.public, key.public))
    platform.providers.bind(caller, NewKey(key=key.public.text, proof=proof, by_old_key=by_old))


def send(browser: httpx.Client, page: str, address: str, **fields: str) -> httpx.Response:
    code = re.search(r'name="csrf" value="([0-9a-f]+)"', browser.get(page).text)
    assert code is not None
    return browser.post(address, data={"csrf": code[1], **fields}, follow_redirects=True)


def test_an_admin_verifies_and_takes_back_by_a_button(platform: Platform, browser: httpx.Client) -> None:
    platform.accounts.create(ADMIN, "clinic", ["provider"])
    dataset, _ = platform.accept(CLINIC, write_sketch(drawn_anew(honest_sketch("rent"))))
    assert "nobody here has made sure who this is" in words(browser.get(f"/datasets/{dataset.id}"))
    assert platform.first_admin_token is not None
    browser.cookies.set("saibot_session", signed_in(browser, platform.first_admin_token))
    assert "The provider is verified" in words(send(browser, "/admin", "/admin/verify", account="clinic"))
    for page in (f"/datasets/{dataset.id}", "/", "/providers/clinic", "/admin"):
        assert '<span class="tag good">verified</span>' in browser.get(page).text, page
    taken = {"account": "clinic", "take-back": "1"}
    assert "taken back" in words(send(browser, "/admin", "/admin/verify", **taken))
    assert '<span class="tag good">verified</span>' not in browser.get("/").text
    trail = words(browser.get("/admin"))
    assert "verify clinic" in trail and "take verification back clinic" in trail


def test_only_admins_have_the_buttons_and_nobody_verifies_themselves(platform: Platform, browser: httpx.Client) -> None:
    token = platform.accounts.create(ADMIN, "clinic", ["provider"]).token
    browser.cookies.set("saibot_session", signed_in(browser, token))
    for address in ("/admin/verify", "/admin/take-key"):
        assert send(browser, "/account", address, account="clinic").status_code == 403
    both = platform.accounts.create(ADMIN, "both", ["provider", "admin"]).token
    browser.cookies.clear()
    browser.cookies.set("saibot_session", signed_in(browser, both))
    rows = browser.get("/admin").text.split("<tr>")[1:]
    own, others = (next(row for row in rows if f">{name}</a>" in row or f">{name}<" in row) for name in ("both", "clinic"))
    assert "Verify" in others and "Verify" not in own
    assert send(browser, "/admin", "/admin/verify", account="both").status_code == 403


def test_a_signature_shows_its_fingerprint_and_what_became_of_the_key(platform: Platform, browser: httpx.Client) -> None:
    platform.accounts.create(ADMIN, "clinic", ["provider"])
    first, second, sketch = SigningKey.new(), SigningKey.new(), drawn_anew(honest_sketch("rent"))
    bind(platform, CLINIC, first)
    id = platform.accept(CLINIC, write_sketch(signed(sketch, first)))[0].id
    page = words(browser.get(f"/datasets/{id}"))
    assert f"signed with the key {first.public.fingerprint} , which is the provider's" in page
    bind(platform, CLINIC, second, first)
    assert "which the provider replaced on" in words(browser.get(f"/datasets/{id}"))
    provider = words(browser.get("/providers/clinic"))
    assert second.public.fingerprint in provider and f"{first.public.fingerprint} until" in provider
    platform.accept(CLINIC, write_sketch(signed(sketch, second)))
    assert platform.first_admin_token is not None
    browser.cookies.set("saibot_session", signed_in(browser, platform.first_admin_token))
    assert "The key is taken back" in words(send(browser, "/admin", "/admin/take-key", account="clinic"))
    assert "has no more: an admin took it back" in words(browser.get(f"/datasets/{id}"))


def test_an_unsigned_sketch_is_called_unsigned(platform: Platform, browser: httpx.Client) -> None:
    id = platform.accept(CLINIC, write_sketch(drawn_anew(honest_sketch("rent"))))[0].id
    assert "Signature unsigned" in words(browser.get(f"/datasets/{id}"))
    assert "its sketches are unsigned" in words(browser.get("/providers/clinic"))


def test_a_copy_and_a_claim_beyond_belief_say_so_on_their_page_and_in_the_catalogue(
    platform: Platform, browser: httpx.Client
) -> None:
    sketch = drawn_anew(honest_sketch("rent"))
    original, _ = platform.accept(CLINIC, write_sketch(sketch))
    plan = sketch.header.plan | {"request": sketch.header.plan["request"] | {"rows": 10**9}}
    lying = renamed(sketch, "all-rents", plan=plan, invariants={"rows": 10**9})
    copy, _ = platform.accept(THIEF, write_sketch(lying))
    page = browser.get(f"/datasets/{copy.id}").text
    assert f'href="/datasets/{original.id}"' in page and "<strong>A copy</strong>" in page
    assert "It claims 1,000,000,000 rows" in page and "and it claims 1,000,000,000" in page
    listed = browser.get("/").text
    assert listed.index(original.id) < listed.index(copy.id)
    assert '<span class="tag warm">copy</span>' in listed and "hard to believe" in listed


def test_the_form_asks_whom_to_search(platform: Platform, browser: httpx.Client) -> None:
    token = platform.accounts.create(ADMIN, "ana", ["requester"]).token
    browser.cookies.set("saibot_session", signed_in(browser, token))
    page = browser.get("/ask", params={"provider": "clinic"}).text
    assert 'name="providers"' in page and 'value="clinic"' in page and 'name="verified"' in page
    code = re.search(r'name="csrf" value="([0-9a-f]+)"', page)
    assert code is not None
    train = write_sketch(drawn_anew(honest_sketch("mine", features=("level", "age"))))
    fields = {"csrf": code[1], "target": "age", "providers": " clinic , school ,", "verified": "on", "steps": "1"}
    fields |= {"confidence": "0.9", "shown": "5", "rank": "usable", "joins": "on"}
    sent = browser.post("/ask", data=fields, files={"train": ("mine.saibot", train)})
    assert sent.status_code == 303, sent.text
    with platform.database.read() as connection:
        (asked,) = connection.execute(select(searches.c.options)).scalars()
    assert '"providers":["clinic","school"]' in asked and '"verified":true' in asked
