"""The names of a corpus's sketches, in files that together say what one file would."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from saibot.errors import InvalidInput
from saibot.search.corpus import Corpus
from saibot.search.names import MOST_FILES, Names


def test_any_changes_leave_what_a_plain_dictionary_would_hold(tmp_path: Path) -> None:
    rng = random.Random(3)
    names, expected = Names(tmp_path / "names", {}), dict[str, str]()
    for step in range(200):
        add = {f"{rng.randrange(300):03d}": f"set-{step}" for _ in range(rng.randrange(4))}
        add = {digest: name for digest, name in add.items() if digest not in expected}
        remove = frozenset(rng.sample(sorted(expected), min(len(expected), rng.randrange(2))))
        if rng.random() < 0.5:
            names = Names(tmp_path / "names", names.files)  # as another process would open it
        names, stale = names.changed(add, remove)
        names.delete(stale)
        expected = {digest: name for digest, name in (expected | add).items() if digest not in remove}
        assert names.known == expected and len(names) == len(expected)
        assert len(names.files) <= MOST_FILES + 1
        assert {path.name for path in (tmp_path / "names").glob("*.json")} == set(names.files)
    assert Names(tmp_path / "names", names.files).known == expected


def test_a_corpus_whose_index_lists_its_sketches_itself_is_read_and_kept(tmp_path: Path) -> None:
    Corpus.create(tmp_path / "corpus")
    index = tmp_path / "corpus" / "index.json"
    document = json.loads(index.read_text())
    del document["names"]
    index.write_text(json.dumps(document | {"sketches": {"a": "one", "b": "two"}}))
    corpus = Corpus(tmp_path / "corpus")
    assert len(corpus) == 2 and corpus.name_of("b") == "two"
    assert corpus.remove("a")
    again = Corpus(tmp_path / "corpus")
    assert again.digests == ("b",) and "sketches" not in json.loads(index.read_text())


def test_damaged_names_say_so(tmp_path: Path) -> None:
    names, _ = Names(tmp_path / "names", {}).changed({"a": "one"})
    next((tmp_path / "names").glob("*.json")).write_text("{")
    with pytest.raises(InvalidInput, match="damaged"):
        Names(tmp_path / "names", names.files).known  # noqa: B018
