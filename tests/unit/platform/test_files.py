"""Both stores keep the same promises: a folder, and an S3-compatible one (here a small one that speaks the protocol)."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from saibot.errors import InvalidInput
from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.service import Platform
from saibot.platform.storage.files import FileStore, open_files
from saibot.safe_file import UNFINISHED, write_safely
from tests.support.object_store import KEYS, object_store


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, dict[str, bytes]]]:
    """The address of a store, and what is in it."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with object_store() as found:
        yield found


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FileStore:
    address = str(tmp_path / "files") if request.param == "folder" else request.getfixturevalue("bucket")[0]
    return open_files(address)


def test_a_file_is_there_until_it_is_deleted(store: FileStore) -> None:
    store.put("ab/one.saibot", b"content")
    store.put("ab/one.saibot", b"content")  # the same again changes nothing
    store.put("two", b"x" * 300_000)
    assert sorted(store.names()) == ["ab/one.saibot", "two"]
    with store.open("two") as file:
        assert file.seek(0, 2) == 300_000
        file.seek(299_999)
        assert file.read(5) == b"x"
    store.delete("ab/one.saibot")
    store.delete("ab/one.saibot")
    assert list(store.names()) == ["two"]
    with pytest.raises(FileNotFoundError):
        store.open("ab/one.saibot")


def test_half_a_file_left_by_a_kill_is_no_file(tmp_path: Path) -> None:
    store = open_files(str(tmp_path))
    half = tmp_path / "ab" / f"{UNFINISHED}1a2b3c4d"
    half.parent.mkdir()
    half.write_bytes(b"cont")
    assert list(store.names()) == [] and list(half.parent.iterdir()) == []


def test_what_others_keep_in_the_same_folder_is_left_alone(tmp_path: Path, settings: Settings) -> None:
    files = tmp_path / "shared"
    (files / "domains").mkdir(parents=True)
    others = {".bashrc", f"{UNFINISHED}thesis", "thesis.docx", "domains/list.arrow"}
    for name in others:
        (files / name).write_bytes(b"years of work")
    stray = files / "ab" / f"{'ab' * 32}.saibot"
    for _ in range(2):
        Platform(settings.model_copy(update={"files": str(files)})).close()
        there = {path.relative_to(files).as_posix() for path in files.rglob("*") if path.is_file()}
        assert {name for name in there if not name.startswith("set-aside/")} == others
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(b"an upload that was cut off: the second start sets it aside")


def test_a_new_database_does_not_take_another_platforms_sketches_for_rubbish(
    settings: Settings, provider: Caller, named: Callable[..., bytes], tmp_path: Path
) -> None:
    shared = settings.model_copy(update={"files": str(tmp_path / "files")})
    platform = Platform(shared)
    platform.accept(provider, named("kept"))
    platform.close()
    for _ in range(2):  # nor the second time it is tried
        with pytest.raises(InvalidInput, match="the database is new"):
            Platform(shared.model_copy(update={"data": tmp_path / "other"}))
    again = Platform(shared)
    assert len(list(again.files.names())) == 1
    again.close()


def test_a_full_disk_keeps_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("saibot.safe_file.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_safely(tmp_path / "one", b"content")
    assert list(tmp_path.iterdir()) == []


def test_other_kinds_of_store_are_refused() -> None:
    with pytest.raises(InvalidInput, match="ftp"):
        open_files("ftp://somewhere")


def test_a_platform_keeps_its_sketches_in_a_bucket_and_searches_copies(
    bucket: tuple[str, dict[str, bytes]], settings: Settings, provider: Caller, named: object
) -> None:
    address, objects = bucket
    sketch = named("far-away")  # type: ignore[operator]
    platform = Platform(settings.model_copy(update={"files": address}))
    dataset, _ = platform.accept(provider, sketch)
    assert [content for name, content in objects.items() if name.endswith(".saibot")] == [sketch]
    with platform.open_sketch(provider, dataset.digest) as file:
        assert file.read() == sketch
    platform.shards.catch_up()
    assert len(platform.shards) == 1
    platform.withdraw(provider, dataset.id)
    assert not any(objects.values()) and len(platform.shards) == 0
    assert list((settings.data / "corpus" / "sketches").iterdir()) == []
    platform.close()
