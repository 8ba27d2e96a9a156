"""Tokens are random, kept as hashes, and good for what they say until they are revoked or expire."""

from __future__ import annotations

import hashlib
import stat

import pytest
from sqlalchemy import select, update

from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.clock import now
from saibot.platform.errors import NotSignedIn, OverQuota, Unusable
from saibot.platform.service import Platform
from saibot.platform.storage.tables import tokens
from tests.support.serving import ADMIN


def test_the_first_start_alone_makes_an_admin_token(settings: Settings) -> None:
    first = Platform(settings)
    path = settings.data / "admin-token"
    text = path.read_text().strip()
    assert first.first_admin_token == text and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert first.accounts.caller_of(text).roles == {"admin"}
    first.close()
    second = Platform(settings)
    assert second.first_admin_token is None and path.read_text().strip() == text
    second.close()


def test_a_token_is_kept_as_its_hash_only(platform: Platform) -> None:
    made = platform.accounts.create(ADMIN, "clinic", ["provider"])
    assert made.token.startswith("saibot_") and len(made.token) >= 39
    with platform.database.read() as connection:
        rows = [dict(row) for row in connection.execute(select(tokens)).mappings()]
    assert hashlib.sha256(made.token.encode()).hexdigest() in [row["hash"] for row in rows]
    assert made.token not in str(rows)
    for path in platform.settings.data.iterdir():
        assert path.is_dir() or made.token.encode() not in path.read_bytes()


def test_an_expired_token_is_refused(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    made = platform.accounts.create(ADMIN, "clinic", ["provider"], expires="2999-01-01")
    assert platform.accounts.caller_of(made.token).name == "clinic"
    monkeypatch.setattr("saibot.platform.accounts.now", lambda: "2999-01-01T00:00:00Z")
    platform.accounts._known.clear()
    with pytest.raises(NotSignedIn, match="expired"):
        platform.accounts.caller_of(made.token)


@pytest.mark.parametrize(
    "name, roles", [("", ["provider"]), ("a b", ["provider"]), ("a", []), ("a", ["king"]), ("../x", ["admin"])]
)
def test_a_token_needs_a_name_and_known_roles(platform: Platform, name: str, roles: list[str]) -> None:
    with pytest.raises(Unusable):
        platform.accounts.create(ADMIN, name, roles)


def test_when_a_token_was_last_used_is_written_down_now_and_then(platform: Platform) -> None:
    made = platform.accounts.create(ADMIN, "clinic", ["provider"])
    platform.accounts.caller_of(made.token)
    platform.accounts.note_uses()
    shown = {token.id: token for token in platform.accounts.list(ADMIN, None, 10).items}
    assert shown[made.id].last_used is not None


def test_a_token_revoked_while_it_is_looked_up_is_not_remembered(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = platform.accounts.create(ADMIN, "clinic", ["provider"])
    look_up = platform.accounts._look_up

    def slow(key: str) -> Caller:
        found = look_up(key)
        platform.accounts.revoke(ADMIN, made.id)
        return found

    monkeypatch.setattr(platform.accounts, "_look_up", slow)
    platform.accounts.caller_of(made.token)
    monkeypatch.undo()
    with pytest.raises(NotSignedIn, match="revoked"):
        platform.accounts.caller_of(made.token)


def test_whoever_is_no_admin_ends_a_stolen_token_where_no_admin_is_left(platform: Platform) -> None:
    made = platform.accounts.create(ADMIN, "clinic", ["provider"])
    caller = platform.accounts.caller_of(made.token)
    with platform.database.write() as connection:  # the only admin's has expired
        connection.execute(update(tokens).where(tokens.c.roles == "admin").values(expires="2000-01-01T00:00:00Z"))
    platform.accounts.revoke(caller, made.id)
    with pytest.raises(NotSignedIn, match="revoked"):
        platform.accounts.caller_of(made.token)


def test_tokens_made_and_revoked_in_a_loop_are_not_without_end(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saibot.platform.accounts.TOKENS_A_DAY", 5)
    own = platform.accounts.caller_of(platform.accounts.create(ADMIN, "clinic", ["provider"]).token)
    made = []
    for _ in range(5):
        made.append(platform.accounts.create(own, None, ["provider"]).id)
        platform.accounts.revoke(own, made[-1])
    with pytest.raises(OverQuota, match="5 tokens since yesterday"):
        platform.accounts.create(own, None, ["provider"])
    assert platform.accounts.create(ADMIN, "clinic", ["provider"]).id, "an admin may"


def test_revoked_tokens_go_after_a_while_but_none_of_admins_and_revocations_are_heard_of_all_the_same(
    platform: Platform,
) -> None:
    accounts, long_ago = platform.accounts, {"revoked": "2000-01-01T00:00:00.000000Z"}
    old, kept, later = (accounts.create(ADMIN, "clinic", ["provider"]) for _ in range(3))
    admin = accounts.create(ADMIN, "second", ["admin", "provider"])
    with platform.database.write() as connection:
        connection.execute(update(tokens).where(tokens.c.id.in_([old.id, admin.id])).values(long_ago))
    accounts.revoke(ADMIN, kept.id)
    accounts.hear_of_revocations()
    accounts.caller_of(later.token)
    platform.tidy()
    left = {token.id for token in accounts.list(ADMIN, None, 100).items}
    assert old.id not in left and {kept.id, later.id, admin.id} <= left
    with platform.database.write() as connection:  # another server revokes one: as many are revoked as were before
        connection.execute(update(tokens).where(tokens.c.id == later.id).values(revoked=now()))
    accounts.hear_of_revocations()
    with pytest.raises(NotSignedIn, match="revoked"):
        accounts.caller_of(later.token)
