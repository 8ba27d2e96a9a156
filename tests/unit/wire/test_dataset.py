"""A dataset is described by its sketch's header and by what is known of its publication, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from saibot.client.answers import read_answer
from saibot.client.errors import PlatformUnreachable
from saibot.sketch import read_sketch
from saibot.wire import CorpusEntry, Dataset, Search

GOLDEN = Path(__file__).parents[2] / "contract" / "golden"
PUBLICATION = {"id": "d1", "provider": "clinic", "visibility": "public", "version": 2, "bytes": 7}
PUBLICATION |= {"published": "2013-01-01T00:00:00Z", "expires": None}


@pytest.mark.parametrize("name", ["lookup-levels", "semiring-composite", "union-laplace"])
def test_a_dataset_says_what_its_sketch_says(name):
    sketch = read_sketch(GOLDEN / f"{name}.saibot")
    header, found = sketch.header, Dataset.of(sketch, **PUBLICATION)
    assert (found.name, found.digest, found.rows) == (header.dataset.name, sketch.digest, header.rows)
    assert [feature.name for feature in found.features] == list(sketch.features)
    assert found.budget.to_json() == header.budget and found.neighbours == str(header.neighbours)
    assert {name: getattr(found, name) for name in PUBLICATION} == PUBLICATION
    parts = [part.digest for part in header.key.parts] if header.key else None
    assert parts == (None if found.key is None else [part.digest for part in found.key.parts])
    assert Dataset.model_validate_json(found.model_dump_json()) == found


def test_a_composite_key_names_all_its_domains_in_the_corpus():
    found = Dataset.of(read_sketch(GOLDEN / "semiring-composite.saibot"), **PUBLICATION)
    entry = CorpusEntry.of(found)
    assert found.key is not None and entry.key == found.key.name
    assert entry.domain == "+".join(part.domain for part in found.key.parts)


def test_answers_of_a_later_platform_are_read_and_those_that_lack_something_are_not():
    document = Dataset.of(read_sketch(GOLDEN / "lookup-levels.saibot"), **PUBLICATION).to_json()
    later = document | {"colour": "green", "budget": document["budget"] | {"rho": "1"}}
    assert read_answer(Dataset, later).to_json() == document
    del document["digest"]
    with pytest.raises(PlatformUnreachable, match="digest"):
        read_answer(Dataset, document)


def test_a_search_knows_whether_it_is_over():
    facts = {"id": "s1", "requester": "ana", "progress": {"stage": "", "part": None}, "created": "", "target": "y"}
    facts |= {"started": None, "finished": None, "error": None}
    states = ("queued", "running", "done", "failed", "cancelled")
    assert [Search(status=status, **facts).over for status in states] == [False, False, True, True, True]
