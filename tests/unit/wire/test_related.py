"""Accounts, tokens and related tables have one shape each, whichever side writes or reads them."""

from __future__ import annotations

from saibot.client.answers import read_answer
from saibot.platform.accounts import Caller
from saibot.wire import Discovered, NewToken, Related

JOIN = {
    "id": "d1", "provider": "clinic", "name": "visits", "title": "", "rows": 12, "digest": "0" * 64, "key": "ward",
    "why": "joined on all keys", "on": ["ward"], "share": 1.0, "signal": None,
}  # fmt: skip


def test_an_answer_is_read_with_what_a_later_platform_adds_and_without_what_an_earlier_one_lacks() -> None:
    found = read_answer(Related, {"id": "d0", "joins": [JOIN | {"later": 1}], "unions": [], "later": 2})
    assert found.joins[0].features == () and found.joins[0].on == ("ward",)


def test_what_a_folder_holds_is_related_in_the_same_words() -> None:
    entry = JOIN | {"id": None, "provider": None}
    found = Discovered.model_validate({"joins": [entry], "unions": [], "unrelated": []})
    assert (
        found.to_json()["joins"][0].keys()
        == Related.model_validate({"joins": [JOIN], "unions": []}).to_json()["joins"][0].keys()
    )


def test_a_new_tokens_text_stays_out_of_logs() -> None:
    facts = {"created": "2013-01-01T00:00:00Z", "expires": None, "revoked": None, "last_used": None}
    made = NewToken(id="t1", name="clinic", roles=("provider",), token="saibot_secret", **facts)
    assert "saibot_secret" not in repr(made) and "saibot_secret" not in f"{made}"


def test_roles_are_listed_in_one_order() -> None:
    assert Caller("a", frozenset({"requester", "admin", "provider"})).account.roles == ("admin", "provider", "requester")
