"""A corpus folder from a stranger reads and deletes nothing outside itself, and crashes nobody."""

from __future__ import annotations

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
