"""Rates, quotas and pages of lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest

from saibot.client.in_process import running
from saibot.platform import Settings
from saibot.platform.accounts import NOBODY, Caller
from saibot.platform.api.app import app_of
from saibot.platform.errors import OverQuota, TooManyRequests, Unusable
from saibot.platform.limits import Limits
from saibot.platform.pagination import read_cursor, write_cursor
from saibot.platform.service import Platform
from tests.support.serving import ADMIN

ONE = Caller("one", frozenset({"provider"}), "t-one")


def test_a_caller_who_asks_too_often_waits_and_others_do_not(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("saibot.platform.limits.time.monotonic", lambda: clock[0])
    limits = Limits(settings.model_copy(update={"read_rate": 2.0, "read_burst": 3}))
    for _ in range(3):
        limits.spend(ONE, "1.2.3.4", "read")
    with pytest.raises(TooManyRequests) as told:
        limits.spend(ONE, "1.2.3.4", "read")
    assert told.value.retry_after == 1
    limits.spend(Caller("other", frozenset({"provider"})), "1.2.3.4", "read")
    limits.spend(ONE, "1.2.3.4", "write")  # writing has a bucket of its own
    clock[0] += 0.5
    limits.spend(ONE, "1.2.3.4", "read")
    with pytest.raises(TooManyRequests):
        limits.spend(ONE, "1.2.3.4", "read")


def test_an_account_has_one_bucket_wherever_it_asks_from_and_whichever_token_it_uses(settings: Settings) -> None:
    limits = Limits(settings.model_copy(update={"read_rate": 0.001, "read_burst": 2}))
    limits.spend(ONE, "1.2.3.4", "read")
    limits.spend(replace(ONE, token="another"), "5.6.7.8", "read")
    with pytest.raises(TooManyRequests):
        limits.spend(ONE, None, "read")
    limits.spend(NOBODY, "one", "read")  # an address that is spelled like an account is somebody else


def test_pages_and_the_http_interface_count_against_one_bucket(settings: Settings) -> None:
    platform = Platform(settings.model_copy(update={"pages": True, "read_rate": 0.001, "read_burst": 6}))
    token = platform.accounts.create(ADMIN, "ana", ["requester"]).token
    with running(app_of(platform)) as transport:
        cookies = {"saibot_session": platform.accounts.open_session(token)}
        browser = httpx.Client(transport=transport, base_url="http://platform.example", cookies=cookies)
        program = httpx.Client(transport=transport, base_url="http://platform.example")
        program.headers["authorization"] = f"Bearer {token}"
        for _ in range(3):
            assert browser.get("/plan").status_code == program.get("/v1/me").status_code == 200
        assert browser.get("/plan").status_code == program.get("/v1/me").status_code == 429
    platform.close()


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
def test_whoever_watches_the_platform_may_do_so_as_often_as_others_read_and_beside_them(
    settings: Settings, path: str
) -> None:
    platform = Platform(settings.model_copy(update={"read_rate": 0.001, "read_burst": 3}))
    with running(app_of(platform)) as transport:
        anybody = httpx.Client(transport=transport, base_url="http://platform.example")
        assert [anybody.get("/v1/domains").status_code for _ in range(4)] == [200, 200, 200, 429]
        answers = [anybody.get(path) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert int(answers[-1].headers["retry-after"]) > 0
    platform.close()


def test_callers_who_have_gone_are_forgotten(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saibot.platform.limits.MOST_CALLERS", 50)
    clock = [0.0]
    monkeypatch.setattr("saibot.platform.limits.time.monotonic", lambda: clock[0])
    limits = Limits(settings)
    for number in range(500):
        clock[0] += 1.0
        limits.spend(NOBODY, str(number), "read")
    assert len(limits._buckets) <= 51


def test_quotas_stop_a_provider_and_withdrawing_makes_room(
    settings: Settings, provider: Caller, named: Callable[..., bytes]
) -> None:
    size = len(named("a"))
    platform = Platform(settings.model_copy(update={"datasets_per_provider": 2, "bytes_per_provider": 3 * size + 100}))
    first, _ = platform.accept(provider, named("a"))
    platform.accept(provider, named("b"))
    with pytest.raises(OverQuota, match="2 datasets"):
        platform.accept(provider, named("c"))
    platform.accept(provider, named("a", title="x"))  # a version of what is there
    with pytest.raises(OverQuota, match="bytes"):
        platform.accept(provider, named("a", title="y"))
    platform.withdraw(provider, first.id)
    platform.accept(provider, named("c"))
    platform.close()


def test_only_one_platform_uses_a_folder(platform: Platform, settings: Settings) -> None:
    from saibot.errors import InvalidInput

    with pytest.raises(InvalidInput, match="another platform"):
        Platform(settings)


def test_the_data_folder_is_its_owners_alone(platform: Platform, settings: Settings) -> None:
    assert settings.data.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("place", [["2026-01-01", 5], [3, 7], [0.5, 2], ["Zürich", 1]])
def test_a_cursor_comes_back_as_it_went(place: list[object]) -> None:
    text = write_cursor(place)
    assert text is not None and read_cursor(text, *map(type, place)) == place


@pytest.mark.parametrize("text", ["x", "W10", "bnVsbA", "WyJhIl0", "WzEsMl0=", "é", "W" * 900, "WyJcdTAwMDAiLDFd"])
def test_a_cursor_of_another_list_is_refused(text: str) -> None:
    with pytest.raises(Unusable):
        read_cursor(text, str, int)
