"""A corpus folder from a stranger reads and deletes nothing outside itself, and crashes nobody."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from saibot.errors import InvalidInput
from saibot.search import search
from saibot.search.corpus import Corpus
from saibot.search.from_sketches import search_request
from saibot.search.index import CorpusIndex
from saibot.search.shard import ShardRows, open_shard, write_shard
from saibot.sketch import read_sketch
from saibot.wire import SearchOptions
from tests.support.forging import content_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Corpus.create(tmp_path / "corpus").add([read_sketch(content_of("lookup-levels"))])
    return tmp_path / "corpus"


def change(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "corpus.sqlite")) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


def remove_all(folder: Path) -> None:
    corpus = Corpus(folder)
    for digest in corpus.digests:
        corpus.remove(digest)


OUTSIDE = {
    "a shard": "UPDATE shard SET name = '../../precious.arrow'",
    "an absolute shard": "UPDATE shard SET name = '/etc/passwd'",
    "a sketch": "UPDATE sketch SET digest = '../../precious'",
    "a version of factors": "INSERT INTO learned SELECT key_id, '../../precious', 1, 0 FROM shard",
    "a key": "UPDATE shard SET key_id = '../../precious'",
    "no text at all": "UPDATE shard SET name = x'2e2e2f'",
    "a trigger": "CREATE TRIGGER more AFTER UPDATE ON corpus BEGIN DELETE FROM sketch; END",
}


@pytest.mark.parametrize("statement", [pytest.param(text, id=name) for name, text in OUTSIDE.items()])
def test_names_that_lead_out_of_the_folder_are_refused(folder: Path, statement: str) -> None:
    precious = [folder.parent / "precious.arrow", folder.parent / "precious.saibot"]
    for path in precious:
        path.write_text("mine")
    change(folder, statement)
    with pytest.raises(InvalidInput, match=r"not its own|more than an index"):
        remove_all(folder)
    assert all(path.read_text() == "mine" for path in precious)


def test_parts_that_are_links_to_elsewhere_are_refused_and_nothing_is_swept_there(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.move(folder / "keys", elsewhere)
    (elsewhere / "diary.txt").write_text("mine")
    (folder / "keys").symlink_to(elsewhere)
    with pytest.raises(InvalidInput, match="lies elsewhere"):
        Corpus(folder).remove("any")
    assert (elsewhere / "diary.txt").exists()


# ------------------------------------------------------------------------------------------------ what SQLite would do


JOURNAL = bytes.fromhex("d9d505f920a163d7")  # how SQLite's journals begin, and how those end that name another


@pytest.mark.parametrize("begins", [JOURNAL + bytes(504), b"x" * 512])
def test_a_journal_that_names_a_file_of_the_user_deletes_nothing(folder: Path, begins: bytes) -> None:
    """SQLite deletes what the end of a journal names, once it has gone back to what the journal holds."""
    diary = folder.parent / "diary.txt"
    diary.write_text("mine")
    name = os.fsencode(diary)
    end = name + len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big") + JOURNAL
    (folder / "corpus.sqlite-journal").write_bytes(begins + bytes(4) + end)
    with pytest.raises(InvalidInput, match="leads out of it"):
        Corpus(folder)
    assert diary.read_text() == "mine"


def test_a_journal_of_our_own_is_still_gone_back_to(folder: Path) -> None:
    before = CorpusIndex(folder).contents()
    with closing(sqlite3.connect(folder / "corpus.sqlite", isolation_level=None)) as db:
        db.execute("PRAGMA cache_size = 1")  # so that pages are written before the end
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE corpus SET changes = 9")
        db.executemany("INSERT INTO shard (name, key_id) VALUES (?, 'k')", [(f"{n}-{'x' * 900}",) for n in range(200)])
        crashed = folder.parent / "crashed"
        shutil.copytree(folder, crashed)
    assert (crashed / "corpus.sqlite-journal").stat().st_size > 0
    assert CorpusIndex(crashed).contents() == before
    assert not (crashed / "corpus.sqlite-journal").exists()


@pytest.mark.parametrize("ending", ["", "-journal", "-wal", "-shm"])
@pytest.mark.parametrize("make", [os.symlink, os.link, lambda other, path: os.mkfifo(path)])
def test_an_index_that_is_somebody_elses_is_not_touched(
    folder: Path, tmp_path: Path, ending: str, make: Callable[[Path, Path], None]
) -> None:
    other = Corpus.create(tmp_path / "other").folder / "corpus.sqlite"
    content = other.read_bytes()
    path = folder / f"corpus.sqlite{ending}"
    path.unlink(missing_ok=True)
    make(other, path)
    with pytest.raises(InvalidInput, match="a link, or no file"):
        Corpus(folder).add([read_sketch(content_of("v2-lookup-levels"))])
    assert other.read_bytes() == content


MORE = {
    "a computed column": "ALTER TABLE shard ADD COLUMN more TEXT AS (hex(zeroblob(50000000)))",
    "a computed default": "ALTER TABLE sketch ADD COLUMN more TEXT DEFAULT 'much'",
    "a computed index": "CREATE INDEX more ON sketch (hex(zeroblob(1000)))",
    "another table": "CREATE TABLE more (x)",
    "a virtual table": "CREATE VIRTUAL TABLE more USING fts5(x)",
    "statistics": "ANALYZE",
    "a view": "CREATE VIEW more AS SELECT * FROM sketch",
}


@pytest.mark.parametrize("statement", [pytest.param(text, id=name) for name, text in MORE.items()])
def test_an_index_that_declares_anything_else_is_refused(folder: Path, statement: str) -> None:
    """A column may be computed by whoever reads it: any amount of memory from a file of a few kilobytes."""
    change(folder, statement)
    with pytest.raises(InvalidInput, match="more than an index"):
        Corpus(folder)


def test_names_that_are_computed_take_no_memory(folder: Path) -> None:
    """`shard.name` itself, in a table that is named like ours."""
    change(
        folder,
        "DROP TABLE shard",
        "CREATE TABLE shard (number INTEGER PRIMARY KEY, key_id TEXT, name TEXT AS (hex(zeroblob(50000000))))",
        "INSERT INTO shard (key_id) VALUES ('k')",
    )
    with pytest.raises(InvalidInput, match="more than an index"):
        Corpus(folder)


def test_pages_that_stand_in_many_places_are_not_read_many_times(folder: Path) -> None:
    """Two pages that point to one and the same 200 times each give 40,000 times its rows; ten pages never end."""
    path = folder / "corpus.sqlite"
    with closing(sqlite3.connect(path)) as db:
        ((page,),) = db.execute("PRAGMA page_size")
        ((root,),) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'shard'")
    pages = [path.read_bytes()[start : start + page] for start in range(0, path.stat().st_size, page)]
    leaf = len(pages) + 1
    pages += [pages[root - 1], pointing_to(leaf, page)]
    pages[root - 1] = pointing_to(leaf + 1, page)
    first = bytearray(b"".join(pages))
    first[28:32] = len(pages).to_bytes(4, "big")
    path.write_bytes(first)
    with pytest.raises(InvalidInput, match="damaged index"):
        Corpus(folder)


def pointing_to(child: int, size: int) -> bytes:
    """A page within a table, all of whose 200 places lead to one other."""
    cell = child.to_bytes(4, "big") + b"\x01"
    start = size - len(cell)
    head = b"\x05" + bytes(2) + (200).to_bytes(2, "big") + start.to_bytes(2, "big") + bytes(1) + child.to_bytes(4, "big")
    return (head + start.to_bytes(2, "big") * 200).ljust(start, b"\0") + cell


def test_a_text_longer_than_any_name_is_refused(folder: Path) -> None:
    change(folder, "INSERT INTO shard (name, key_id) VALUES (printf('%.*c', 2000000, 'x'), 'k')")
    with pytest.raises(InvalidInput, match="damaged index"):
        Corpus(folder)


# ------------------------------------------------------------------------------------------------ shards that lie


WRONG: dict[str, Callable[[ShardRows], np.ndarray]] = {
    "too narrow": lambda rows: rows.values[:, :2],
    "too wide": lambda rows: np.tile(rows.values, (1, 1000)),
}


@pytest.mark.parametrize("values", [pytest.param(change, id=name) for name, change in WRONG.items()])
def test_shards_that_do_not_fit_their_keys_end_in_a_sentence(
    folder: Path, values: Callable[[ShardRows], np.ndarray]
) -> None:
    """Compiled loops check no ends: they would read beyond them."""
    (path,) = (folder / "shards").iterdir()
    rows = open_shard(path)
    write_shard(path, ShardRows(rows.text, rows.numbers, np.ascontiguousarray(values(rows)), rows.extra, rows.factors))
    request = search_request(read_sketch(content_of("v2-lookup-levels")), target="delay")
    with pytest.raises(InvalidInput, match="does not fit its list of keys"):
        search(request, Corpus(folder), SearchOptions())
