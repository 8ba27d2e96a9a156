"""The ledger's file: append-only, readable by its owner alone, and clear about what is wrong with it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from saibot.errors import SaibotError
from saibot.privacy.ledger import Ledger
from tests.support.charges import dump, pure
from tests.support.ledger_workers import charge_as_nobody
from tests.support.processes import in_a_process

# ------------------------------------------------------------------------------------------------ append-only


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE charge SET events = '[]'",
        "UPDATE account SET cap_epsilon = '100'",
        "UPDATE receipt SET digest = 'x'",
        "UPDATE secret SET hash_key = x'00'",
        "DELETE FROM charge",
        "DELETE FROM account",
        "DELETE FROM receipt",
        "DELETE FROM secret",
        "INSERT OR REPLACE INTO charge SELECT id, account, dataset, edition, split, part, source, release, asked, '[]', "
        "created, NULL FROM charge",
        "REPLACE INTO account SELECT name, neighbours, unit, '100', cap_delta, created, cap_keys FROM account",
        "UPDATE account SET cap_keys = '1e-7'",
        "REPLACE INTO receipt SELECT charge, 'x', created FROM receipt",
        "REPLACE INTO secret VALUES (1, x'00')",
        "INSERT INTO account SELECT name, neighbours, unit, '9', '0', created, '0' FROM account WHERE 1 "
        "ON CONFLICT (name) DO UPDATE SET cap_epsilon = '9'",
    ],
)
def test_what_is_written_cannot_be_changed_or_removed(ledger: Ledger, statement: str):
    ledger.fingerprint([b"rows"])
    ledger.receipt(ledger.charge(pure("0.5")), "a" * 64)
    before = dump(ledger)
    db = sqlite3.connect(ledger.home / "ledger.sqlite")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute(statement)
    db.rollback()
    db.close()
    assert dump(ledger) == before


def test_without_its_triggers_the_ledger_could_be_rewritten_so_the_test_above_can_fail(ledger: Ledger):
    ledger.charge(pure("0.5"))
    db = sqlite3.connect(ledger.home / "ledger.sqlite", isolation_level=None)
    db.execute("DROP TRIGGER charge_no_delete")
    db.execute("DELETE FROM charge")
    db.close()
    assert ledger.account("taxi").entries == ()  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------------------ files and folders


def test_only_the_owner_can_read_the_ledger_whatever_the_umask(tmp_path: Path):
    before = os.umask(0)
    try:
        ledger = Ledger(tmp_path / "home")
        ledger.charge(pure("0.3"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "home" / "ledger.sqlite").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


def test_a_ledger_that_was_made_readable_is_closed_again_at_its_next_use(ledger: Ledger):
    ledger.charge(pure("0.3"))
    path = ledger.home / "ledger.sqlite"
    path.chmod(0o644)
    ledger.account("taxi")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def a_file_in_the_way(folder: Path) -> Path:
    (folder / "file").write_text("x")
    return folder / "file" / "home"


def a_folder_for_a_file(folder: Path) -> Path:
    (folder / "home" / "ledger.sqlite").mkdir(parents=True)
    return folder / "home"


def not_a_database(folder: Path) -> Path:
    (folder / "home").mkdir()
    (folder / "home" / "ledger.sqlite").write_bytes(b"not a ledger at all, but long enough to be read as one" * 100)
    return folder / "home"


@pytest.mark.parametrize("spoil", [a_file_in_the_way, a_folder_for_a_file, not_a_database])
def test_a_ledger_that_cannot_be_opened_says_where_and_what_to_do(tmp_path: Path, spoil: Callable[[Path], Path]):
    ledger = Ledger(spoil(tmp_path))
    attempts = (lambda: ledger.charge(pure("0.3")), lambda: ledger.account("taxi"), lambda: ledger.fingerprint([]))
    for attempt in attempts:
        with pytest.raises(SaibotError, match=r"ledger\.sqlite cannot be used .*SAIBOT_HOME"):
            attempt()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="saibot-test-"))
    folder.chmod(0o755)
    yield folder
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.fault
@pytest.mark.parametrize("used_before", [False, True])
def test_an_unwritable_folder_gives_a_clear_error(open_folder: Path, used_before: bool):
    home, said = open_folder / "home", open_folder / "said"
    home.mkdir()
    if used_before:
        Ledger(home).charge(pure("0.3"))
    said.touch()
    if os.geteuid() == 0:  # root may write anywhere, so the attempt is made by nobody
        try:
            for path in (home, said, *home.iterdir()):
                os.chown(path, 65534, 65534)
        except PermissionError:
            pytest.skip("this root may not hand files to another user")
    home.chmod(0o555)
    assert in_a_process(charge_as_nobody, home, said) == 0
    assert said.read_text().startswith(f"the ledger at {home}/ledger.sqlite cannot be used (")
    assert said.read_text().endswith("Check the folder, or set SAIBOT_HOME.")
    if used_before:
        home.chmod(0o755)
        assert len(Ledger(home).account("taxi").entries) == 1  # type: ignore[union-attr]


def test_an_event_that_a_newer_saibot_wrote_stops_every_further_charge(ledger: Ledger):
    """It cannot be priced, so nobody knows what is left."""
    ledger.charge(pure("0.1"))
    with sqlite3.connect(ledger.home / "ledger.sqlite") as db:
        db.execute(
            "INSERT INTO charge (account, dataset, edition, source, release, asked, events, created) "
            "SELECT account, dataset, edition, source, x'00', asked, '[{\"kind\": \"renyi\"}]', created FROM charge"
        )
    with pytest.raises(SaibotError, match="unknown kind 'renyi'"):
        ledger.charge(pure("0.1"))
