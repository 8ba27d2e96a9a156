"""The page for whoever runs the platform, and the page of one's own account."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from saibot.client.in_process import running
from saibot.platform import Settings
from saibot.platform.api.app import app_of
from saibot.platform.service import Platform, open_platform
from tests.support.serving import ADMIN, signed_in

GOLDEN = Path(__file__).parents[3] / "contract" / "golden"


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Platform, httpx.Client]]:
    settings = Settings(data=tmp_path_factory.mktemp("admin") / "data", accept_unsafe=True, workers=1, log_level="error")
    platform = open_platform(settings)
    token = platform.accounts.create(ADMIN, "clinic", ["provider"]).token
    platform.accept(platform.accounts.caller_of(token), (GOLDEN / "lookup-levels.saibot").read_bytes())
    with running(app_of(platform)) as transport:
        yield platform, httpx.Client(transport=transport, base_url="http://platform.example")


def text(client: httpx.Client, path: str, token: str | None) -> str:
    client.cookies.clear()
    if token is not None:
        client.cookies.set("saibot_session", signed_in(client, token))
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", answer.text)).split())


def test_an_admin_sees_accounts_tokens_queue_disk_and_trail(stocked: tuple[Platform, httpx.Client]) -> None:
    platform, client = stocked
    words = text(client, "/admin", platform.first_admin_token)
    assert "clinic provider 1 1 not yet" in words, "roles, tokens and sketches of an account"
    assert "0 queued · 0 running · 0 done · 0 failed · 0 cancelled" in words
    assert "corpus" in words and "free" in words
    assert "publish" in words and "create token" in words
    assert "roles provider" in words and re.search(r"budget ε \S+, δ \S+", words), "facts as people read them"
    assert not re.search(r"[\[{]'|[0-9a-f]{40}", words), "no literals of a program, no whole digests"
    assert "Database saibot.db, saibot.db-" in words and "Not of this platform" not in words
    assert platform.first_admin_token is not None and platform.first_admin_token not in words


@pytest.mark.parametrize("roles", [None, ["provider"], ["requester"]])
def test_nobody_else_does(stocked: tuple[Platform, httpx.Client], roles: list[str] | None) -> None:
    platform, client = stocked
    client.cookies.clear()
    if roles is None:
        assert client.get("/admin").headers["location"] == "/sign-in?next=%2Fadmin"
        assert client.get("/account").headers["location"] == "/sign-in?next=%2Faccount"
        return
    client.cookies.set("saibot_session", signed_in(client, platform.accounts.create(ADMIN, f"a-{roles[0]}", roles).token))
    assert client.get("/admin").status_code == 403


def test_everybody_sees_the_tokens_of_the_own_account_and_no_others(stocked: tuple[Platform, httpx.Client]) -> None:
    platform, client = stocked
    made = platform.accounts.create(ADMIN, "asker", ["requester"])
    other = platform.accounts.create(ADMIN, "somebody", ["requester"])
    words = text(client, "/account", made.token)
    assert made.id in words and "this one" in words and other.id not in words and "Revoke" not in words


def test_an_account_makes_itself_a_token_on_its_page_and_sees_it_once(stocked: tuple[Platform, httpx.Client]) -> None:
    platform, client = stocked
    wide = platform.accounts.create(ADMIN, "both", ["provider", "requester"], expires="2999-06-01")
    words = text(client, "/account", wide.token)
    assert "Another token" in words and "yours ends" in words
    code = re.search(r'name="csrf" value="([0-9a-f]+)"', client.get("/account").text)
    assert code is not None
    fields = {"csrf": code[1], "role": ["requester"], "expires": "2999-01-01"}
    answer = client.post("/account/tokens", data=fields)
    (made,) = set(re.findall(r"saibot_[\w-]{40,}", answer.text))
    assert answer.status_code == 200 and answer.headers["cache-control"] == "private, no-store"
    caller = platform.accounts.caller_of(made)
    assert (caller.name, caller.roles) == ("both", {"requester"})
    assert made not in text(client, "/account", wide.token) and caller.token in text(client, "/account", wide.token)
    code = re.search(r'name="csrf" value="([0-9a-f]+)"', client.get("/account").text)
    assert code is not None
    for wrong, status in (
        ({"role": ["admin"]}, 403),
        ({"role": []}, 422),
        ({"expires": "2999-06-02"}, 403),
        ({"expires": "x"}, 422),
    ):
        assert client.post("/account/tokens", data=fields | {"csrf": code[1]} | wrong).status_code == status
    client.cookies.clear()
    assert client.post("/account/tokens", data=fields).status_code in (401, 403)


def test_budget_is_about_budgets(stocked: tuple[Platform, httpx.Client]) -> None:
    platform, client = stocked
    words = text(client, "/budget", platform.accounts.create(ADMIN, "clinic", ["provider"]).token)
    assert "What clinic has published" in words and "tokens" not in words.lower()


def test_an_admin_sees_what_is_in_quarantine_and_why(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data", accept_unsafe=True, workers=1, log_level="error")
    platform = open_platform(settings)
    owner = platform.accounts.caller_of(platform.accounts.create(ADMIN, "clinic", ["provider"]).token)
    found, _ = platform.accept(owner, (GOLDEN / "lookup-levels.saibot").read_bytes())
    token = platform.first_admin_token
    with running(app_of(platform)) as transport:
        client = httpx.Client(transport=transport, base_url="http://platform.example")
        assert "Nothing: every stored file is named by the database" in text(client, "/admin", token)
        platform.shards.catch_up()
        platform.shards.refused[found.digest] = "its keys do not fit their list."
        stray = (GOLDEN / "union-laplace.saibot").read_bytes()
        digest = "ab" * 32
        platform.files.put(f"set-aside/ab/{digest}.saibot", stray)
        words = text(client, "/admin", token)
    assert "1 file set aside, 1 sketch not searchable" in words
    assert f"{found.name} clinic Its keys do not fit their list. {found.digest[:12]}" in words
    assert "saibot aside --restore DIGEST" in words and digest[:16] in words
    platform.close()
