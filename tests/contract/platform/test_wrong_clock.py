"""A clock that was ahead for a while costs nobody a dataset, and what has expired goes in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.backup import backup, restore
from saibot.platform.errors import NotFound, OverQuota
from saibot.platform.service import Platform, open_platform
from saibot.platform.storage.tables import versions
from saibot.search.corpus import Corpus
from tests.campaigns.faults import clock_ahead
from tests.support.serving import ADMIN

PROVIDER = Caller("clinic", frozenset({"provider"}), "t-clinic")


@pytest.fixture
def platform(fresh: Settings) -> Iterator[Platform]:
    found = open_platform(fresh)
    yield found
    if not found.stopping:
        found.close()


def shown(platform: Platform, id: str) -> bool:
    try:
        return platform.catalog.show(ADMIN, id)["id"] == id
    except NotFound:
        return False


def in_ten_days() -> str:
    from datetime import UTC, datetime, timedelta

    return (datetime.now(UTC).date() + timedelta(10)).isoformat()


def test_what_expired_by_a_clock_that_was_ahead_is_back_when_the_clock_is(
    platform: Platform, sketches: dict[str, bytes]
) -> None:
    dataset, _ = platform.accept(PROVIDER, sketches["good"], expires=in_ten_days())
    platform.shards.catch_up()
    with clock_ahead(400):
        assert not shown(platform, dataset.id)
        for _ in range(3):
            platform.tidy()
        assert not shown(platform, dataset.id) and len(Corpus(platform.shards.folder)) == 0
        with pytest.raises(NotFound):
            platform.open_sketch(ADMIN, dataset.digest)
    platform.close()
    platform = open_platform(platform.settings)  # a start notices by itself
    platform.shards.catch_up()
    assert shown(platform, dataset.id) and Corpus(platform.shards.folder).digests == (dataset.digest,)
    with platform.open_sketch(ADMIN, dataset.digest) as file:
        assert file.read() == sketches["good"]
    platform.close()


def test_on_postgres_a_server_whose_clock_is_ahead_shows_what_all_others_show(
    fresh: Settings, tmp_path: Path, sketches: dict[str, bytes], postgres: Callable[[], str]
) -> None:
    settings = fresh.model_copy(update={"database": postgres(), "files": str(tmp_path / "files")})
    platform = open_platform(settings)
    dataset, _ = platform.accept(PROVIDER, sketches["good"], expires=in_ten_days())
    platform.shards.catch_up()
    with clock_ahead(400):
        assert shown(platform, dataset.id)
        platform.tidy()
        assert shown(platform, dataset.id) and Corpus(platform.shards.folder).digests == (dataset.digest,)
    platform.close()


def test_what_expires_while_it_is_packed_is_in_no_shard_afterwards(
    platform: Platform, sketches: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not packed yet when the platform looks for what has expired, and it was live when packing began."""
    platform.shards.close()  # so that nothing is packed but by the test
    real, asked = platform.shards._apply, []

    def expiring_first(**changes: Any) -> None:
        if changes.get("add") and not asked:
            asked.append(changes)
            with clock_ahead(400):
                platform.tidy()
        real(**changes)

    monkeypatch.setattr(platform.shards, "_apply", expiring_first)
    dataset, _ = platform.accept(PROVIDER, sketches["good"], expires=in_ten_days())
    platform.shards.catch_up()
    assert asked and len(Corpus(platform.shards.folder)) == 0
    platform.tidy()
    platform.shards.catch_up()
    assert Corpus(platform.shards.folder).digests == (dataset.digest,), "the clock is right again"


def test_what_was_packed_by_a_server_that_was_killed_before_it_noted_so_goes_out_when_it_expires(
    platform: Platform, sketches: dict[str, bytes]
) -> None:
    """It is in the shards, and the database does not say so. Found by `make kills`."""
    platform.accept(PROVIDER, sketches["good"], expires=in_ten_days())
    platform.shards.catch_up()
    platform.shards.close()
    with platform.database.write() as connection:
        connection.execute(update(versions).values(packed=False))
    with clock_ahead(400):
        platform.tidy()
        assert len(Corpus(platform.shards.folder)) == 0


def test_what_has_expired_is_withdrawn_for_good_when_some_days_are_over(
    platform: Platform, fresh: Settings, sketches: dict[str, bytes]
) -> None:
    platform.accept(PROVIDER, sketches["good"], expires=in_ten_days())
    with clock_ahead(11):
        platform.tidy()
    with clock_ahead(17):
        platform.tidy()
    assert list((fresh.data / "sketches").rglob("*.saibot"))
    with clock_ahead(19):
        platform.tidy()
    assert not list((fresh.data / "sketches").rglob("*.saibot"))
    platform.tidy()
    assert platform.trail.list(ADMIN, None, 1).items[0]["action"] == "withdraw"


@pytest.mark.parametrize("content", ["good", "good2"])
def test_what_has_expired_and_is_published_again_is_back_for_those_alone_who_saw_it(
    platform: Platform, sketches: dict[str, bytes], content: str
) -> None:
    first, _ = platform.accept(PROVIDER, sketches["good"], visibility="granted", expires=in_ten_days())
    platform.shards.catch_up()
    with clock_ahead(11):
        platform.tidy()
        again, is_new = platform.accept(PROVIDER, sketches[content])
        assert is_new == (content == "good2") and again.id == first.id and again.version == 1 + is_new
        assert again.visibility == "granted" and again.expires is None
        platform.shards.catch_up()
        platform.tidy()
        assert shown(platform, again.id) and Corpus(platform.shards.folder).digests == (again.digest,)


def test_a_refused_upload_costs_nobody_a_dataset_that_has_expired(
    platform: Platform, sketches: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, _ = platform.accept(PROVIDER, sketches["good"], expires=in_ten_days())
    with clock_ahead(11):
        platform.tidy()
        monkeypatch.setattr(platform.publishing, "_settings", platform.settings.model_copy(update={"bytes_per_provider": 1}))
        with pytest.raises(OverQuota):
            platform.accept(PROVIDER, sketches["good2"])
    platform.tidy()
    assert shown(platform, dataset.id)


def test_what_could_not_be_taken_out_of_the_shards_when_it_expired_is_taken_out_later(
    platform: Platform, sketches: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.accept(PROVIDER, sketches["good"], expires=in_ten_days())
    platform.shards.catch_up()

    def fail(digests: set[str], patience: float | None) -> None:
        raise OSError("the store is away")

    with clock_ahead(11):
        with monkeypatch.context() as patched:
            patched.setattr(platform.withdrawing, "_remove", fail)
            with pytest.raises(OSError, match="away"):
                platform.tidy()
        assert len(Corpus(platform.shards.folder)) == 1
        platform.tidy()
        assert len(Corpus(platform.shards.folder)) == 0


def test_a_backup_holds_what_has_expired_and_is_kept(platform: Platform, tmp_path: Path, sketches: dict[str, bytes]) -> None:
    dataset, _ = platform.accept(PROVIDER, sketches["good"], expires=in_ten_days())
    with clock_ahead(11):
        platform.tidy()
        backup(platform.settings, tmp_path / "backup.tar")
    elsewhere = platform.settings.model_copy(update={"data": tmp_path / "elsewhere"})
    restore(elsewhere, tmp_path / "backup.tar")
    restored = open_platform(elsewhere)
    assert shown(restored, dataset.id)  # with the right time it is back
    restored.close()
