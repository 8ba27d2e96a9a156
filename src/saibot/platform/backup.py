"""Backup and restore: one tar file that any platform can be restored from, whatever database and file store it uses.

    manifest.json          format, version, how many rows of each table
    tables/NAME.jsonl      rows as they were at one moment
    files/NAME             every file that the rows name

A backup can be made while the platform runs. A dataset that is withdrawn meanwhile is left out. Searches and their results
are not in it: they belong to their requesters and expire. Shards are made anew from the sketches.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Table, func, insert, select, text

from saibot.domains.file import read_domain
from saibot.errors import InvalidDomain, InvalidInput, InvalidSketch
from saibot.platform.clock import now
from saibot.platform.settings import Settings
from saibot.platform.storage.database import Database
from saibot.platform.storage.file_names import domain_file_name, sketch_file_name
from saibot.platform.storage.files import DOMAIN_FILE, SKETCH_FILE, FileStore, open_files
from saibot.platform.storage.migrate import LATEST, migrate, revision, revisions
from saibot.platform.storage.ownership import DatabaseLease, check_there_is_one, hold_folder
from saibot.platform.storage.tables import ALL, OF_THE_MOMENT, datasets, domains, versions
from saibot.platform.storage.unavailable import told_in_a_line
from saibot.safe_file import UNFINISHED, move_safely
from saibot.sketch import read_sketch

FORMAT = {"format": "saibot-backup", "version": 1}
TABLES = tuple(table for table in ALL if table not in OF_THE_MOMENT)  # in the order in which they can be filled
PART = f"{UNFINISHED}backup-"  # how the name of a backup begins that is being written

FILE_NAMES = {versions: sketch_file_name, domains: domain_file_name}


@dataclass(frozen=True)
class BackedUp:
    """What went in, or came out."""

    datasets: int
    domains: int
    tokens: int
    files: int

    def to_json(self) -> dict[str, int]:
        return {"datasets": self.datasets, "domains": self.domains, "tokens": self.tokens, "files": self.files}


@told_in_a_line()
def backup(settings: Settings, target: Path) -> BackedUp:
    """Write a backup of the platform with these settings, which may be running."""
    check_there_is_one(settings)
    database = Database(settings.database_url)
    try:
        if revision(database) != LATEST:
            raise InvalidInput(
                "there is no platform here, or one of another version.", hint="Start it once, then try again."
            )
        rows = _read_all(database)
    finally:
        database.close()
    files = open_files(settings.files_address)
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep_parts(target.parent)
    with _writing(target) as temporary, tarfile.open(temporary, mode="w") as archive:
        _leave_out(rows, set())
        names, left_out = _write_files(archive, files, rows)
        _check_gone(settings, left_out)
        _leave_out(rows, left_out)
        for table in TABLES:
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows[table.name])
            _add(archive, f"tables/{table.name}.jsonl", lines.encode())
        counts = {table.name: len(rows[table.name]) for table in TABLES}
        manifest = FORMAT | {"revision": LATEST, "made": now(), "rows": counts, "files": names}
        _add(archive, "manifest.json", json.dumps(manifest).encode())
    return BackedUp(counts["datasets"], counts["domains"], counts["tokens"], len(names))


@told_in_a_line()
def restore(settings: Settings, source: Path) -> BackedUp:
    """Fill a platform that has nothing yet. All or nothing: the rows come in one transaction, after the files."""
    with ExitStack() as held:
        held.enter_context(hold_folder(settings))
        database = Database(settings.database_url)
        held.callback(database.close)
        held.callback(DatabaseLease(database).close)
        archive = held.enter_context(_opened(source))
        manifest = _manifest(archive)
        if revision(database) not in (None, manifest["revision"]):
            raise InvalidInput(
                "this platform has tables of another version than the backup.",
                hint="Restore into a new --data folder or database.",
            )
        migrate(database, to=manifest["revision"])
        tables = [table for table in TABLES if table.name in manifest["rows"]]  # earlier versions had fewer
        with database.read() as connection:
            if any(connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables):
                raise InvalidInput("this platform is not empty.", hint="Restore into a new --data folder or database.")
        files = open_files(settings.files_address)
        for name in manifest["files"]:
            files.put(name, _checked(name, _member(archive, f"files/{name}")))
        named = set(manifest["files"])
        with database.write() as connection:
            for table in tables:
                lines = _member(archive, f"tables/{table.name}.jsonl").decode().splitlines()
                rows = [json.loads(line) for line in lines]
                if table in FILE_NAMES and not {FILE_NAMES[table](row["digest"]) for row in rows} <= named:
                    raise InvalidInput("the backup misses a file that it names.", hint="Use another backup.")
                if table is versions:
                    rows = [row | {"packed": False} for row in rows]
                for start in range(0, len(rows), 1000):
                    connection.execute(insert(table), rows[start : start + 1000])
                if not database.is_sqlite and "number" in table.c:
                    continue_numbers(connection, table)
        migrate(database)  # a backup of an earlier version is brought up to this one
    counts = manifest["rows"]
    return BackedUp(counts["datasets"], counts["domains"], counts["tokens"], len(manifest["files"]))


# ------------------------------------------------------------------------------------------------ inside


@contextmanager
def _writing(target: Path) -> Iterator[Path]:
    """A file beside the target, which takes its place at the end. A lock on it says that somebody is writing it."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=PART)  # readable by its owner only
    part = Path(name)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield part
        move_safely(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)


def _sweep_parts(folder: Path) -> None:
    """Backups that were being written when their process was killed."""
    for part in folder.glob(f"{PART}*"):
        with suppress(OSError), part.open("rb") as file:  # a lock that is held: somebody writes it
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()


def _read_all(database: Database) -> dict[str, list[dict[str, Any]]]:
    with database.snapshot() as connection:
        return {table.name: [dict(row) for row in connection.execute(select(table)).mappings()] for table in TABLES}


def _write_files(
    archive: tarfile.TarFile, files: FileStore, rows: dict[str, list[dict[str, Any]]]
) -> tuple[list[str], set[str]]:
    """The names of all files written, and the digests of sketches that are gone meanwhile."""
    names, gone = [], set()
    for digest in dict.fromkeys(row["digest"] for row in rows["versions"]):
        try:
            with files.open(sketch_file_name(digest)) as file:
                content = _checked(sketch_file_name(digest), file.read(), of="the platform")
            _add(archive, f"files/{sketch_file_name(digest)}", content)
            names.append(sketch_file_name(digest))
        except FileNotFoundError:
            gone.add(digest)
    for digest in dict.fromkeys(row["digest"] for row in rows["domains"]):
        try:
            with files.open(domain_file_name(digest)) as file:
                content = _checked(domain_file_name(digest), file.read(), of="the platform")
        except FileNotFoundError:
            hint = "Restore it from an earlier backup."
            raise InvalidInput(
                f"the key domain {digest[:12]} is not in the file store: no backup was made.", hint=hint
            ) from None
        _add(archive, f"files/{domain_file_name(digest)}", content)
        names.append(domain_file_name(digest))
    return names, gone


def _check_gone(settings: Settings, gone: set[str]) -> None:
    """Files that are not there belong to datasets that were withdrawn meanwhile, or the backup would hide a loss."""
    database = Database(settings.database_url)
    try:
        kept = select(versions.c.digest).join(datasets, datasets.c.number == versions.c.dataset)
        with database.read() as connection:
            still = {row.digest for row in connection.execute(kept.where(datasets.c.state != "leaving"))}
    finally:
        database.close()
    if lost := sorted(gone & still):
        raise InvalidInput(
            f"{len(lost)} sketches of the database are not in the file store, such as {lost[0][:12]}: no backup was made.",
            hint="`saibot aside` lists what a start has moved away; else restore the files from an earlier backup.",
        )


def _leave_out(rows: dict[str, list[dict[str, Any]]], gone: set[str]) -> None:
    """Datasets that were withdrawn while the backup was made, or whose withdrawal was under way."""
    leaving = {row["dataset"] for row in rows["versions"] if row["digest"] in gone}
    leaving |= {row["number"] for row in rows["datasets"] if row["state"] == "leaving"}
    rows["datasets"] = [row for row in rows["datasets"] if row["number"] not in leaving]
    for name in (table.name for table in TABLES if "dataset" in table.c):
        rows[name] = [row for row in rows[name] if row["dataset"] not in leaving]


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    facts = tarfile.TarInfo(name)
    facts.size, facts.mode = len(content), 0o600
    archive.addfile(facts, io.BytesIO(content))


def _opened(source: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(source, "r:")
    except (tarfile.TarError, OSError):
        raise InvalidInput(f"{source} is no backup, or it is cut off.", hint="`saibot backup FILE` writes one.") from None


def _checked(name: Any, content: bytes, *, of: str = "the backup") -> bytes:
    """The content, if the name is one that the platform gives to files, and the content is what it was given for."""
    text = name if isinstance(name, str) else ""
    try:
        if found := SKETCH_FILE.fullmatch(text):
            is_right = read_sketch(content).digest == found[2]
        else:
            found = DOMAIN_FILE.fullmatch(text)
            is_right = found is not None and read_domain(content, name=found[1])[1].digest == found[1]
    except (InvalidSketch, InvalidDomain):
        is_right = False
    if not is_right:
        raise InvalidInput(f"{of} holds a file that is not the platform's own, or is damaged.", hint="Use another backup.")
    return content


def _manifest(archive: tarfile.TarFile) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(_member(archive, "manifest.json"))
        known = {name: manifest.get(name) for name in FORMAT} == FORMAT and manifest["revision"] in revisions()
    except (ValueError, AttributeError, KeyError):
        known = False
    if not known:
        raise InvalidInput("the backup was made by another version of saibot.", hint="Restore it with that version.")
    return manifest


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    try:
        file = archive.extractfile(name)
        content = None if file is None else file.read()
    except (KeyError, tarfile.TarError, OSError):
        content = None
    if content is None:
        raise InvalidInput(f"the backup is cut off: it misses {name}.", hint="Use another backup.")
    return content


def continue_numbers(connection: Any, table: Table) -> None:
    """Postgres numbers rows by a counter of its own, which has to know about those that were just put in."""
    last = f"(SELECT coalesce(max(number), 1) FROM {table.name})"
    connection.execute(text(f"SELECT setval(pg_get_serial_sequence('{table.name}', 'number'), {last})"))
