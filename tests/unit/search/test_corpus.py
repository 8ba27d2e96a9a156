"""A corpus survives the death of its writer: what it says is packed is whole, and nothing else counts."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from saibot.errors import InvalidInput
from saibot.safe_file import UNFINISHED
from saibot.search import corpus as module
from saibot.search.corpus import Corpus
from saibot.search.index import CorpusIndex
from saibot.search.shard import ShardRows, concatenate, open_shard, write_shard
from saibot.sketch import SUFFIX, Sketch, read_sketch, write_sketch
from tests.support.processes import at_once, in_a_process

from .conftest import rows_of

GOLDEN = Path(__file__).parents[2] / "contract" / "golden"


def named(name: str) -> Sketch:
    base = read_sketch(GOLDEN / "v2-lookup-levels.saibot")
    dataset = base.header.dataset.model_copy(update={"name": name})
    return Sketch(base.header.model_copy(update={"dataset": dataset}), base.levels).sealed()


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def half_a_file(path: Path, content: bytes, **_: object) -> None:
    """What a machine leaves that stops while a file is written under its own name."""
    path.write_bytes(content[: len(content) // 2])
    die()


MOMENTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "half a sketch is written": lambda patch: patch.setattr(module, "write_safely", half_a_file),
    "sketches are there, shards are not": lambda patch: patch.setattr(module, "write_shard", die),
    "half a shard is written": lambda patch: patch.setattr("saibot.search.shard.pa.ipc.new_file", die),
    "files are there, the index is not": lambda patch: patch.setattr(CorpusIndex, "change", die),
}


def add(folder: Path, sketch: Sketch) -> None:
    Corpus(folder).add([sketch])


def add_and_die(folder: Path, sketch: Sketch, moment: str) -> None:
    MOMENTS[moment](pytest.MonkeyPatch())
    add(folder, sketch)


def change_and_die(folder: Path) -> None:
    with CorpusIndex(folder)._opened("BEGIN IMMEDIATE") as db:
        db.execute("PRAGMA cache_size = 1")  # so that changes reach the file before they are committed
        db.execute("DELETE FROM sketch")
        rows = [(f"{i:064}", "x" * 500) for i in range(500)]
        db.executemany("INSERT INTO sketch (digest, dataset) VALUES (?, ?)", rows)
        die()


@pytest.mark.fault
@pytest.mark.parametrize("moment", list(MOMENTS))
def test_a_writer_that_is_killed_leaves_nothing_that_counts_and_what_it_did_can_be_done_again(
    tmp_path: Path, moment: str
) -> None:
    Corpus.create(tmp_path).add([named("before")])
    before = CorpusIndex(tmp_path).contents()
    lost = named("lost")
    assert in_a_process(add_and_die, tmp_path, lost, moment) == -signal.SIGKILL
    assert CorpusIndex(tmp_path).contents() == before
    corpus = Corpus(tmp_path)
    assert corpus.digests == (named("before").digest,)
    assert corpus.add([lost]) == []
    again = Corpus(tmp_path)
    assert again.digests == (named("before").digest, lost.digest) and len(again) == 2
    assert [again.name_of(digest) for digest in again.digests] == ["before", "lost"]
    assert write_sketch(again.sketch(lost.digest)) == write_sketch(lost)  # not the half that was left
    (id,) = again.key_ids
    rows = [digest for shard in again.shards(id) for digest in shard.text["digest"]]
    assert rows.count(lost.digest) == len(lost.features)


@pytest.mark.fault
def test_a_writer_that_is_killed_in_the_middle_of_the_indexs_own_change_changes_nothing(tmp_path: Path) -> None:
    corpus = Corpus.create(tmp_path)
    corpus.add([named(f"set-{i}") for i in range(3)])
    before = corpus._index.contents()
    assert in_a_process(change_and_die, tmp_path) == -signal.SIGKILL
    assert CorpusIndex(tmp_path).contents() == before and len(Corpus(tmp_path).digests) == 3


def test_two_processes_that_add_at_once_both_count(tmp_path: Path) -> None:
    Corpus.create(tmp_path)
    assert at_once(add, [(tmp_path, named(f"set-{i}")) for i in range(4)]) == [0] * 4
    corpus = Corpus(tmp_path)
    assert sorted(map(corpus.name_of, corpus.digests)) == [f"set-{i}" for i in range(4)]
    assert sum(len(shard) for id in corpus.key_ids for shard in corpus.shards(id)) == 4 * len(named("a").features)


def test_a_sketch_that_another_process_packed_meanwhile_is_not_packed_twice(tmp_path: Path) -> None:
    Corpus.create(tmp_path)
    one, other = Corpus(tmp_path), Corpus(tmp_path)
    assert other.digests == ()  # has looked
    one.add([named("a")])
    with pytest.raises(InvalidInput, match="another process"):
        other.add([named("a")])
    assert len(list((tmp_path / "shards").iterdir())) == 1 and len(Corpus(tmp_path)) == 1


def test_what_was_removed_is_in_no_file(tmp_path: Path) -> None:
    corpus = Corpus.create(tmp_path)
    gone = named("withdrawn-dataset")
    corpus.add([gone, named("stays")])
    stamp = corpus.stamp
    assert corpus.remove(gone.digest) and not corpus.remove(gone.digest)
    assert corpus.stamp != stamp and corpus.stamp == CorpusIndex(tmp_path).stamp()
    assert not any(b"withdrawn-dataset" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert [path.name for path in (tmp_path / "sketches").iterdir()] == [f"{named('stays').digest}{SUFFIX}"]


def test_a_corpus_is_everybodys_to_read(tmp_path: Path) -> None:
    Corpus.create(tmp_path).add([named("a")])
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 4 and all(path.stat().st_mode & 0o777 == 0o644 for path in files)
    assert not any(path.name.startswith(UNFINISHED) for path in files)


# ---------------------------------------------------------------------------------------------- shards


def test_a_shard_holds_float32_and_further_arrays_under_their_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rows_of(rng.normal(size=(3, 5)), ["a", "b", "c"])
    loadings = rng.normal(size=(3, 2)).astype(np.float32)
    write_shard(tmp_path / "s.arrow", ShardRows(rows.text, rows.numbers, rows.values, {"loadings": loadings}))
    found = open_shard(tmp_path / "s.arrow")
    assert found.values.dtype == np.float32 and (found.values == rows.values.astype(np.float32)).all()
    assert list(found.extra) == ["loadings"] and (found.extra["loadings"] == loadings).all()
    taken = found.take(np.array([True, False, True]))
    assert (taken.extra["loadings"] == loadings[[0, 2]]).all()


def test_shards_with_and_without_further_arrays_are_put_together(tmp_path: Path) -> None:
    plain, other = rows_of(np.ones((1, 4)), ["a"]), rows_of(np.ones((2, 4)), ["b", "c"])
    wide = ShardRows(other.text, other.numbers, other.values, {"loadings": np.ones((2, 3), np.float32)})
    narrow = ShardRows(plain.text, plain.numbers, plain.values, {"loadings": np.full((1, 1), 2.0, np.float32)})
    write_shard(tmp_path / "s.arrow", concatenate([plain, wide, narrow]))
    loadings = open_shard(tmp_path / "s.arrow").extra["loadings"]
    nan = np.nan
    np.testing.assert_array_equal(loadings, [[nan] * 3, [1.0] * 3, [1.0] * 3, [2.0, nan, nan]])


def test_a_shard_that_a_newer_one_replaced_is_no_damaged_one(tmp_path: Path) -> None:
    """A search that finds it gone opens the corpus anew; a damaged one would end it."""
    with pytest.raises(FileNotFoundError):
        open_shard(tmp_path / "gone.arrow")


def test_a_shard_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saibot.search.shard.VERSION", b"3")
    write_shard(tmp_path / "s.arrow", rows_of(np.ones((1, 4)), ["a"]))
    monkeypatch.undo()
    with pytest.raises(InvalidInput, match="another format version"):
        open_shard(tmp_path / "s.arrow")
