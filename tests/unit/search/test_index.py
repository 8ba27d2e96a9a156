"""The index of a corpus: what any changes leave is what plain dictionaries would hold, through crashes and other writers."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from saibot.errors import InvalidInput
from saibot.search.corpus import Corpus
from saibot.search.index import FILE, CorpusIndex, SketchEntry
from saibot.sketch import Implausible


def named(**datasets: str) -> dict[str, SketchEntry]:
    return {digest: SketchEntry(name) for digest, name in datasets.items()}


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
            sketches=named(**add), without_names=gone, shards=[(f"key-{step % 3}", f"{step}.arrow")], without_shards=old
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
    index.change(sketches=named(a="one"), shards=[("k", "1.arrow")])
    before = index.contents()
    for change in (
        {"sketches": named(b="two", a="again"), "shards": [("k", "2.arrow")]},
        {"shards": [("k", "2.arrow"), ("l", "1.arrow")]},
        {"without_names": ["a", "nobody"]},
        {"without_shards": ["1.arrow", "gone.arrow"], "sketches": named(b="two")},
    ):
        with pytest.raises(InvalidInput, match="another process"):
            index.change(**change)  # type: ignore[arg-type]
        assert index.contents() == before and index.names() == {"a": "one"}


def test_names_that_were_removed_are_overwritten(index: CorpusIndex, tmp_path: Path) -> None:
    index.change(sketches=named(**{"a" * 64: "the-withdrawn-dataset"}))
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
    index.change(sketches=named(a="one"))
    (tmp_path / FILE).chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        assert CorpusIndex(tmp_path).names() == {"a": "one"}
    finally:
        tmp_path.chmod(0o700)


# ------------------------------------------------------------------------------------------------ providers


FLAGGED = SketchEntry("rent", "clinic", "0a0b", "c" * 64, (Implausible("rows", "it claims too much"),))


def test_what_is_known_of_sketches_comes_back_as_it_went_in(index: CorpusIndex) -> None:
    index.change(sketches={"a": FLAGGED, "b": SketchEntry("wages")})
    assert index.entries(["a", "b", "gone", "a"]) == {"a": FLAGGED, "b": SketchEntry("wages")}
    assert index.payloads() == {"c" * 64: "a"} and index.sketches_of() == {"clinic": {"a"}, "": {"b"}}
    many = {f"{number:04d}": SketchEntry("x", f"p{number % 7}") for number in range(1200)}  # more than one question's worth
    index.change(sketches=many)
    assert index.entries(many) == many


def test_a_provider_keeps_its_number_and_nobody_is_0(index: CorpusIndex, tmp_path: Path) -> None:
    first = index.numbered(["clinic", "school", ""])
    assert first[""] == 0 and len(set(first.values())) == 3
    again = CorpusIndex(tmp_path).numbered(["airline", "clinic"])
    assert {name: again[name] for name in first} == first and again["airline"] not in first.values()


def of_version_2(folder: Path) -> CorpusIndex:
    """An index as the version before providers wrote it."""
    with sqlite3.connect(folder / FILE) as db:
        db.executescript(
            "CREATE TABLE corpus (id INTEGER PRIMARY KEY CHECK (id = 1), identity TEXT NOT NULL, changes INTEGER NOT NULL);"
            "CREATE TABLE shard (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, key_id TEXT NOT NULL);"
            "CREATE TABLE learned (key_id TEXT PRIMARY KEY, version TEXT NOT NULL, sketches INTEGER NOT NULL, "
            "withdrawn INTEGER NOT NULL);"
            "CREATE TABLE sketch (number INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, dataset TEXT NOT NULL);"
            "INSERT INTO corpus VALUES (1, 'x', 0); INSERT INTO sketch VALUES (1, 'a', 'rent'); PRAGMA user_version = 2;"
        )
    return CorpusIndex(folder)


def test_an_index_of_the_version_before_is_read_and_brought_up_by_its_first_change(tmp_path: Path) -> None:
    index = of_version_2(tmp_path)
    assert (index.version(), index.entries(["a"]), index.payloads()) == (2, {"a": SketchEntry("rent")}, {})
    assert index.providers() == {"": 0} and index.sketches_of() == {"": {"a"}}
    index.change(sketches={"b": FLAGGED})
    assert index.version() == 3 and index.entries(["a", "b"]) == {"a": SketchEntry("rent"), "b": FLAGGED}


@pytest.mark.parametrize("flags", ["{", "[1]", '[["rows"]]', "7"])
def test_flags_that_are_none_say_that_the_index_is_damaged(index: CorpusIndex, tmp_path: Path, flags: str) -> None:
    index.change(sketches={"a": FLAGGED})
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("UPDATE sketch SET flags = ?", (flags,))
    with pytest.raises(InvalidInput, match="damaged index"):
        index.entries(["a"])
