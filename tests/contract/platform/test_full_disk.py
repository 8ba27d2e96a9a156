"""A disk that is full to the last byte: what is there can be read and withdrawn, and a restart works."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from saibot.errors import InvalidInput
from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.packing import Packing
from saibot.platform.service import open_platform
from saibot.platform.storage.reserve import is_full
from saibot.search.corpus import Corpus
from tests.support.serving import ADMIN

PROVIDER = Caller("clinic", frozenset({"provider"}), "t-clinic")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small one of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(place)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no disk to fill: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path) -> None:
    """Not a byte is left."""
    for size in (1 << 20, 1):
        with (disk / "filler").open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(os.urandom(size))
            except OSError:
                pass


def test_on_a_full_disk_something_can_be_withdrawn_and_the_platform_restarted(
    disk: Path, fresh: Settings, sketches: dict[str, bytes]
) -> None:
    settings = fresh.model_copy(update={"data": disk / "data"})
    platform = open_platform(settings)
    kept, _ = platform.accept(PROVIDER, sketches["good"])
    gone, _ = platform.accept(PROVIDER, sketches["useless"])
    platform.shards.catch_up()
    fill(disk)
    with pytest.raises((OSError, OperationalError)) as refused:
        platform.accept(PROVIDER, sketches["whole"])
    assert is_full(refused.value)
    with platform.open_sketch(ADMIN, kept.digest) as file:
        assert file.read() == sketches["good"]
    platform.withdraw(PROVIDER, gone.id)
    assert shutil.disk_usage(disk).free > 0
    platform.close()
    fill(disk)
    platform = open_platform(settings)
    assert [one["id"] for one in [platform.catalog.show(ADMIN, kept.id)]] == [kept.id]
    assert not list((settings.data / "sketches").rglob(f"{gone.digest}*"))
    (disk / "filler").unlink()
    platform.shards.catch_up()
    assert Corpus(platform.shards.folder).digests == (kept.digest,)
    platform.tidy()
    assert (settings.data / "reserve").stat().st_size > 1 << 20  # for the next time
    platform.close()


def test_where_there_is_no_room_even_for_empty_shards_they_are_made_when_there_is(
    fresh: Settings, sketches: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others took what dropping the shards had freed. Found by `make kills`."""
    platform = open_platform(fresh)
    kept, _ = platform.accept(PROVIDER, sketches["good"])
    gone, _ = platform.accept(PROVIDER, sketches["useless"])
    later, _ = platform.accept(PROVIDER, sketches["whole"])
    platform.shards.catch_up()
    platform.shards.close()  # so that nothing is packed but by the test

    def no_room(*_: object, **__: object) -> None:
        raise InvalidInput("no index of the corpus can be made (database or disk is full).")

    with monkeypatch.context() as full:
        full.setattr(Corpus, "create", no_room)
        full.setattr(Packing, "apply", no_room)
        platform.withdraw(PROVIDER, gone.id)
        assert not list(platform.shards.folder.rglob("*.arrow"))
        platform.withdraw(PROVIDER, later.id)  # there is still no room
        with pytest.raises(InvalidInput, match="disk is full"):
            platform.shards.catch_up()
        platform.tidy()
    platform.shards.catch_up()
    assert Corpus(platform.shards.folder).digests == (kept.digest,)
    platform.close()
