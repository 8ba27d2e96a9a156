"""The index of a corpus: what any changes leave is what plain dictionaries would hold, through crashes and other writers."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from saibot.errors import InvalidInput
from saibot.search.corpus import Corpus
from saibot.search.index import FILE, CorpusIndex


@pytest.fixture
def index(tmp_path: Path) -> CorpusIndex:
    return CorpusIndex.create(tmp_path)


def test_any_changes_leave_what_plain_dictionaries_would_hold(index: CorpusIndex, tmp_path: Path) -> None:
    rng = random.Random(3)
    names, shards = dict[str, str](), dict[str, str]()
    stamps = {index.stamp()}
    for step in range(60):
        add = {f"{rng.randrange(300):03d}": f"set-{step}" for _ in range(rng.randrange(4))}
        add = {digest: name for digest, name in add.items() if digest not in names}
        gone = rng.sample(sorted(names), min(len(names), rng.randrange(2)))
        old = rng.sample(sorted(shards), min(len(shards), rng.randrange(2)))
        found = index.change(
            names=add, without_names=gone, shards=[(f"key-{step % 3}", f"{step}.arrow")], without_shards=old
        )
        names = {digest: name for digest, name in (names | add).items() if digest not in gone}
        shards = {name: id for name, id in (shards | {f"{step}.arrow": f"key-{step % 3}"}).items() if name not in old}
        again = CorpusIndex(tmp_path)  # as another process would open it
        assert again.names() == names and list(again.names()) == list(names)
        assert found == again.contents() and found.size == len(names)
        assert {name: id for id, files in found.shards.items() for name in files} == shards
        stamps.add(found.stamp)
    assert len(stamps) == 61


def test_a_change_that_fails_changes_nothing(index: CorpusIndex) -> None:
    index.change(names={"a": "one"}, shards=[("k", "1.arrow")])
    before = index.contents()
    for change in (
        {"names": {"b": "two", "a": "again"}, "shards": [("k", "2.arrow")]},
        {"shards": [("k", "2.arrow"), ("l", "1.arrow")]},
        {"without_names": ["a", "nobody"]},
        {"without_shards": ["1.arrow", "gone.arrow"], "names": {"b": "two"}},
    ):
        with pytest.raises(InvalidInput, match="another process"):
            index.change(**change)  # type: ignore[arg-type]
        assert index.contents() == before and index.names() == {"a": "one"}


def test_names_that_were_removed_are_overwritten(index: CorpusIndex, tmp_path: Path) -> None:
    index.change(names={"a" * 64: "the-withdrawn-dataset"})
    assert b"the-withdrawn-dataset" in (tmp_path / FILE).read_bytes()
    index.change(without_names=["a" * 64])
    assert b"the-withdrawn-dataset" not in (tmp_path / FILE).read_bytes()


def test_a_new_corpus_in_the_same_place_has_another_stamp(tmp_path: Path) -> None:
    first = CorpusIndex.create(tmp_path).stamp()
    (tmp_path / FILE).unlink()
    assert CorpusIndex.create(tmp_path).stamp() != first


def test_a_corpus_of_an_earlier_saibot_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text('{"format": "saibot-corpus", "version": 1}')
    for open_it in (Corpus, Corpus.open_or_create):
        with pytest.raises(InvalidInput, match="earlier saibot") as caught:
            open_it(tmp_path)
        assert f"saibot pack NEW {tmp_path}" in str(caught.value)


def test_a_corpus_of_a_later_saibot_is_refused(index: CorpusIndex, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("PRAGMA user_version = 9")
    with pytest.raises(InvalidInput, match="format version 9"):
        Corpus(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"SQLite format 3\0" + b"x" * 4000, b""])
def test_a_damaged_index_says_so(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(InvalidInput, match=r"damaged|format version 0") as caught:
        Corpus(tmp_path)
    assert "saibot pack" in str(caught.value)


def test_a_folder_without_an_index_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no corpus"):
        Corpus(tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_index_in_a_folder_that_cannot_be_written_is_read(index: CorpusIndex, tmp_path: Path) -> None:
    index.change(names={"a": "one"})
    (tmp_path / FILE).chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        assert CorpusIndex(tmp_path).names() == {"a": "one"}
    finally:
        tmp_path.chmod(0o700)
