"""Key domains that were read last are kept as long as they have not too many keys together."""

from __future__ import annotations

from saibot.domains import KeyDomain
from saibot.domains.remembered_domains import RememberedDomains


def keys(size: int) -> KeyDomain:
    return KeyDomain.of_range(1, size)


def test_the_ones_that_were_asked_for_last_are_kept() -> None:
    kept = RememberedDomains(most=10)
    kept.put("a", keys(4))
    kept.put("b", keys(5))
    assert kept.get("a") == keys(4)  # so "b" was asked for longer ago
    kept.put("c", keys(6))
    assert kept.get("b") is None and kept.get("a") == keys(4) and kept.get("c") == keys(6)


def test_a_list_that_is_too_long_by_itself_is_not_kept_and_makes_no_room_for_others() -> None:
    kept = RememberedDomains(most=10)
    kept.put("a", keys(10))
    kept.put("long", keys(11))
    assert kept.get("long") is None and kept.get("a") == keys(10)
    kept.put("a", keys(11))
    assert kept.get("a") is None


def test_another_content_under_the_same_name_is_another_one() -> None:
    kept = RememberedDomains(most=10)
    kept.put("a", keys(4), stamp=1)
    assert kept.get("a", stamp=2) is None and kept.get("a", stamp=1) == keys(4)
