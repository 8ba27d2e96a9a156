"""An account makes itself tokens that can do and last no more than its own, finds them, and ends them; on every storage."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import update

from saibot.platform import Settings, accounts
from saibot.platform.storage.tables import tokens


def ids(client: Any, **query: Any) -> set[str]:
    return {token["id"] for token in client.get("/v1/tokens", params={"limit": 200} | query).json()["items"]}


def made(client: Any, **wanted: Any) -> Any:
    return client.post("/v1/tokens", json=wanted)


def test_everybody_lists_the_own_tokens_and_nobody_elses(server: Any) -> None:
    one, other = server.account("provider"), server.account("requester")
    second = server.account("requester", name=one.account)
    assert len(ids(one)) == 2 and ids(one) == ids(second) and not ids(one) & ids(other)
    assert {token["name"] for token in one.get("/v1/tokens").json()["items"]} == {one.account}
    assert ids(server.admin) >= ids(one) | ids(other) and "token" not in one.get("/v1/tokens").json()["items"][0]
    assert ids(server.admin, mine=True) < ids(server.admin) and not ids(server.admin, mine=True) & ids(one)
    assert server.client().get("/v1/tokens").status_code == 401
    first = one.get("/v1/tokens", params={"limit": 1}).json()
    assert len(first["items"]) == 1 and {first["items"][0]["id"]} < ids(one)
    rest = one.get("/v1/tokens", params={"limit": 1, "cursor": first["next"]}).json()
    assert {first["items"][0]["id"], rest["items"][0]["id"]} == ids(one) and rest["next"] is None


def test_a_token_gives_no_more_roles_than_it_has(server: Any) -> None:
    wide = server.account("provider", "requester")
    narrow = made(wide, roles=["requester"])
    assert narrow.status_code == 201
    narrow_client = server.client(narrow.json()["token"])
    who = narrow_client.get("/v1/me").json()
    assert (who["name"], who["roles"]) == (wide.account, ["requester"])
    for wanted in ({"roles": ["provider"]}, {"roles": ["requester", "provider"]}, {"roles": ["admin"]}):
        refused = made(narrow_client, **wanted)
        assert refused.status_code == 403 and "gives no more than it has" in refused.text
    assert made(wide, name="somebody-else", roles=["requester"]).status_code == 403
    assert set(made(wide).json()["roles"]) == {"provider", "requester"}, "left out: all that it has"
    assert made(server.admin, name="somebody-else").status_code == 422, (
        "an admin's roles are given to nobody by leaving them out"
    )


def test_a_token_gives_none_that_lasts_longer_than_itself(server: Any) -> None:
    name = server.account("requester").account
    ending = server.client(made(server.admin, name=name, roles=["requester"], expires="2990-06-01").json()["token"])
    assert made(ending).json()["expires"] == "2990-06-01", "left out: until its own end"
    assert made(ending, expires="2990-05-31").json()["expires"] == "2990-05-31"
    refused = made(ending, expires="2990-06-02")
    assert refused.status_code == 403 and "expires on 2990-06-01" in refused.text
    lasting = server.account("requester")
    assert made(lasting).json()["expires"] is None and made(lasting, expires="2990-01-01").json()["expires"] == "2990-01-01"


def test_tokens_end_with_the_one_that_they_were_made_with(server: Any) -> None:
    """Whoever stole a token must not keep the account by making another one with it."""
    first = server.account("requester")
    apart = server.account("requester", name=first.account)
    child = server.client(made(first).json()["token"])
    grandchild = server.client(made(child).json()["token"])
    assert grandchild.get("/v1/me").status_code == 200
    (first_id,) = {token["id"] for token in first.get("/v1/tokens").json()["items"]} - ids_after(first)
    assert apart.delete(f"/v1/tokens/{first_id}").status_code == 204
    assert [one.get("/v1/me").status_code for one in (first, child, grandchild, apart)] == [401, 401, 401, 200]
    entries = server.admin.get("/v1/audit", params={"action": "revoke token", "account": first.account}).json()["items"]
    assert [entry["facts"].get("made with") for entry in entries] == [first_id, first_id, None]


def test_an_admins_own_token_is_like_everybodys(server: Any) -> None:
    """Without a name it is for oneself; for an account by its name, even one's own, it stands for itself."""
    first = server.client(made(server.admin, name="second-admin", roles=["admin"]).json()["token"])
    child = made(first, roles=["admin"]).json()
    apart = made(first, name="second-admin", roles=["requester"]).json()
    (first_id,) = {one["id"] for one in first.get("/v1/tokens", params={"mine": True}).json()["items"]} - {
        child["id"],
        apart["id"],
    }
    assert (child["made_with"], apart["made_with"]) == (first_id, None)
    assert first.delete(f"/v1/tokens/{first_id}").status_code == 204
    statuses = [server.client(one["token"]).get("/v1/me").status_code for one in (child, apart)]
    assert statuses == [401, 200]


@pytest.fixture
def alone(fresh: Settings, start_over_http: Any) -> Iterator[Any]:
    """A server that no other test has made an admin of."""
    yield from start_over_http(fresh)


def test_no_admin_is_locked_out_by_a_token_that_ends_with_another(alone: Any) -> None:
    (only,) = alone.admin.get("/v1/tokens").json()["items"]
    child = made(alone.admin, roles=["admin"]).json()
    refused = alone.admin.delete(f"/v1/tokens/{only['id']}")
    assert refused.status_code == 409 and "no admin token would be left" in refused.text
    assert alone.admin.delete(f"/v1/tokens/{child['id']}").status_code == 204


def test_a_lesser_token_ends_itself_and_what_was_made_with_it(server: Any) -> None:
    """It lies on machines that should not hold all that its account may do."""
    first = server.account("provider", "requester")
    first_id = first.get("/v1/tokens").json()["items"][0]["id"]
    sibling = made(first).json()["id"]
    lesser_id = (lesser := made(first, roles=["requester"]).json())["id"]
    client = server.client(lesser["token"])
    below = made(client).json()["id"]
    for id in (first_id, sibling):
        refused = client.delete(f"/v1/tokens/{id}")
        assert refused.status_code == 403 and first_id in refused.json()["error"]["hint"]
    assert client.delete(f"/v1/tokens/{below}").status_code == 204
    assert client.delete(f"/v1/tokens/{lesser_id}").status_code == 204
    assert first.get("/v1/me").status_code == 200 and client.get("/v1/me").status_code == 401


def ids_after(client: Any) -> set[str]:
    """All tokens of the account but its first."""
    return set([token["id"] for token in client.get("/v1/tokens").json()["items"]][1:])


def test_a_token_that_was_just_revoked_makes_none(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    platform = server.app.state.platform
    monkeypatch.setattr(platform.accounts, "hear_of_revocations", lambda: None)
    client = server.account("requester")
    assert client.get("/v1/me").status_code == 200
    with platform.database.write() as connection:  # by another server, which this one has not heard of yet
        connection.execute(update(tokens).where(tokens.c.name == client.account).values(revoked="2026-01-01T00:00:00Z"))
    assert client.get("/v1/me").status_code == 200, "still remembered"
    assert made(client).status_code == 401


def test_no_account_makes_itself_more_than_so_many(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "TOKENS_PER_ACCOUNT", 5)
    client = server.account("requester")
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(made(client).status_code)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [201] * 4 + [422] * 4 and len(ids(client)) == 5
    assert made(server.admin, name=client.account, roles=["requester"]).status_code == 201


def test_the_body_is_read_for_nobody_without_a_token(server: Any) -> None:
    refused = server.client().post("/v1/tokens", content=b"{" * 1000)
    assert refused.status_code == 401
    assert not re.search("json", refused.text, re.IGNORECASE)
