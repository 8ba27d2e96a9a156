"""Nothing is deleted because a database does not know it: it is set aside, told, and given back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from saibot.errors import InvalidInput
from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.backup import backup
from saibot.platform.service import open_platform
from saibot.platform.storage.unavailable import StorageAway
from tests.support.serving import ADMIN
from tests.support.shell import run

PROVIDER = "clinic"


def publish(settings: Settings, *contents: bytes) -> list[str]:
    platform = open_platform(settings)
    try:
        caller = Caller(PROVIDER, frozenset({"provider"}), "t")
        return [platform.accept(caller, content)[0].digest for content in contents]
    finally:
        platform.close()


def stored(settings: Settings) -> set[str]:
    return {path.stem for path in (settings.data / "sketches").rglob("*.saibot")}


@pytest.fixture
def older(fresh: Settings, sketches: dict[str, bytes], tmp_path: Path) -> tuple[Settings, list[str], Path]:
    """A platform with two sketches on a database that knows one of them; the right database lies beside it."""
    first = publish(fresh, sketches["good"])
    shutil.copytree(fresh.data, tmp_path / "before")
    second = publish(fresh, sketches["useless"])
    right = tmp_path / "right"
    right.mkdir()
    for path in fresh.data.glob("saibot.db*"):
        shutil.move(path, right / path.name)
    for path in (tmp_path / "before").glob("saibot.db*"):
        shutil.copy(path, fresh.data / path.name)
    return fresh, [*first, *second], right


def test_a_start_on_an_older_database_keeps_every_sketch_and_the_right_one_gets_them_back(
    older: tuple[Settings, list[str], Path],
) -> None:
    settings, digests, right = older
    platform = open_platform(settings)
    told = [one.digest for one in platform.list_set_aside()]
    platform.close()
    assert stored(settings) == set(digests) and told == digests[1:]
    for path in settings.data.glob("saibot.db*"):
        path.unlink()
    for path in right.iterdir():
        shutil.move(path, settings.data / path.name)
    platform = open_platform(settings)
    assert platform.list_set_aside() == [] and platform.missing_files == 0
    with platform.open_sketch(ADMIN, digests[1]) as file:
        assert file.read()
    platform.close()


def test_a_key_domain_that_was_set_aside_is_registered_again_for_whoever_had_it(fresh: Settings, tmp_path: Path) -> None:
    open_platform(fresh).close()
    before = tmp_path / "before"
    before.mkdir()
    for path in fresh.data.glob("saibot.db*"):
        shutil.copy(path, before / path.name)
    platform = open_platform(fresh)
    caller = Caller(PROVIDER, frozenset({"provider"}), "t")
    wards, _ = platform.register_domain(caller, "wards", 3, b"key,town\na,x\nb,y\n")
    with platform.domains.csv(wards.digest) as file:
        keys = file.read()
    platform.close()
    for path in fresh.data.glob("saibot.db*"):
        path.unlink()
    for path in before.iterdir():
        shutil.copy(path, fresh.data / path.name)
    listed = run("aside", "--data", fresh.data, cwd=tmp_path).stdout
    assert "wards@3" in listed and wards.digest in listed
    told = run("aside", "--data", fresh.data, "--restore", wards.digest, "--provider", PROVIDER, cwd=tmp_path)
    assert "wards version 3 is registered again" in told.stdout, told.stderr
    platform = open_platform(fresh)
    again = platform.domains.show("wards", 3)
    assert (again.digest, again.provider, again.levels) == (wards.digest, PROVIDER, wards.levels)
    with platform.domains.csv(wards.digest) as file:
        assert file.read() == keys
    assert platform.list_set_aside() == [] and platform.domains.registry.entry(wards.digest) is not None
    platform.close()


def test_a_sketch_that_was_set_aside_is_published_again_by_command(older: tuple[Settings, list[str], Path]) -> None:
    settings, digests, _ = older
    platform = open_platform(settings)
    dataset = platform.restore_set_aside(digests[1], PROVIDER)
    assert dataset.digest == digests[1] and dataset.visibility == "granted" and dataset.provider == PROVIDER
    assert platform.list_set_aside() == []
    with pytest.raises(InvalidInput, match="set aside"):
        platform.restore_set_aside("0" * 64, PROVIDER)
    platform.close()
    assert stored(settings) == set(digests)


def test_a_backup_that_would_hide_a_loss_or_a_damage_is_not_made(
    fresh: Settings, sketches: dict[str, bytes], tmp_path: Path
) -> None:
    (digest,) = publish(fresh, sketches["good"])
    backup(fresh, tmp_path / "good.tar")
    (path,) = (fresh.data / "sketches").rglob("*.saibot")
    content = path.read_bytes()
    path.write_bytes(content[:-100] + b"x" * 100)
    with pytest.raises(InvalidInput, match="damaged"):
        backup(fresh, tmp_path / "damaged.tar")
    path.unlink()
    with pytest.raises(InvalidInput, match=f"such as {digest[:12]}: no backup"):
        backup(fresh, tmp_path / "lost.tar")
    assert not (tmp_path / "damaged.tar").exists() and not (tmp_path / "lost.tar").exists()
    assert not list(tmp_path.glob(".writing-*"))


def test_a_start_tells_of_files_that_are_nowhere(
    fresh: Settings, sketches: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    publish(fresh, sketches["good"])
    next((fresh.data / "sketches").rglob("*.saibot")).unlink()
    platform = open_platform(fresh.model_copy(update={"log_level": "warning"}))
    assert platform.missing_files == 1 and b"saibot_files_missing 1.0" in platform.metrics.text()
    platform.close()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    assert any(line["event"] == "files and database differ" and line["missing"] == 1 for line in lines)


def test_a_database_that_is_none_ends_in_a_sentence(fresh: Settings, sketches: dict[str, bytes]) -> None:
    publish(fresh, sketches["good"])
    for path in fresh.data.glob("saibot.db-*"):
        path.unlink()
    database = fresh.data / "saibot.db"
    for damaged in (b"no database at all" * 1000, database.read_bytes()[:4096] + b"\xff" * 40_000):
        database.write_bytes(damaged)
        with pytest.raises(StorageAway, match="damaged") as caught:
            open_platform(fresh)
        assert "restore" in str(caught.value.hint)


def test_a_search_folder_that_the_database_does_not_know_is_kept_for_a_while(fresh: Settings) -> None:
    open_platform(fresh).close()
    folder = fresh.data / "searches" / "s123"
    folder.mkdir()
    (folder / "result.json").write_text("{}")
    for _ in range(2):
        platform = open_platform(fresh)
        platform.tidy()
        platform.close()
    assert (fresh.data / "searches" / ".set-aside-s123" / "result.json").exists()


def test_a_withdrawal_that_was_cut_off_is_no_missing_file(fresh: Settings, sketches: dict[str, bytes]) -> None:
    from sqlalchemy import update

    from saibot.platform.storage.tables import datasets

    publish(fresh, sketches["good"])
    platform = open_platform(fresh)
    with platform.database.write() as connection:
        connection.execute(update(datasets).values(state="leaving"))
    platform.close()
    next((fresh.data / "sketches").rglob("*.saibot")).unlink()
    platform = open_platform(fresh)
    assert platform.missing_files == 0 and platform.list_set_aside() == []
    platform.close()


def test_a_copy_that_is_set_aside_goes_with_a_withdrawal(older: tuple[Settings, list[str], Path]) -> None:
    settings, digests, _ = older
    platform = open_platform(settings)  # sets the second one aside
    (content,) = [path.read_bytes() for path in (settings.data / "sketches" / "set-aside").rglob("*.saibot")]
    caller = Caller(PROVIDER, frozenset({"provider"}), "t")
    dataset, _ = platform.accept(caller, content)
    assert [one.digest for one in platform.list_set_aside()] == digests[1:]
    platform.withdraw(caller, dataset.id)
    assert platform.list_set_aside() == [] and stored(settings) == set(digests[:1])
    platform.close()


def test_looking_for_what_is_set_aside_makes_no_platform_where_none_is(fresh: Settings) -> None:
    with pytest.raises(InvalidInput, match="no platform"):
        open_platform(fresh, new=False)
    assert not fresh.data.exists()


def test_what_a_killed_backup_left_is_swept_and_what_another_is_writing_is_not(fresh: Settings, tmp_path: Path) -> None:
    import fcntl

    open_platform(fresh).close()
    left, written = tmp_path / ".writing-backup-left", tmp_path / ".writing-backup-written"
    left.write_bytes(b"half")
    with written.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        backup(fresh, tmp_path / "whole.tar")
        assert written.exists() and not left.exists() and (tmp_path / "whole.tar").exists()
    (fresh.data / "corpus" / ".writing-index").write_bytes(b"half")
    open_platform(fresh).close()
    assert not list(fresh.data.rglob(".writing-*"))
