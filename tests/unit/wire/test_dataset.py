"""A dataset is described by its sketch's header and by what is known of its publication, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from saibot.client.answers import read_answer
from saibot.client.errors import PlatformUnreachable
from saibot.sketch import header as header_parts
from saibot.sketch import read_sketch
from saibot.wire import CorpusEntry, Dataset, Search
from saibot.wire import dataset as wire_dataset

GOLDEN = Path(__file__).parents[2] / "contract" / "golden"
PUBLICATION = {"id": "d1", "provider": "clinic", "visibility": "public", "version": 2, "bytes": 7}
PUBLICATION |= {"published": "2013-01-01T00:00:00Z", "expires": None}


@pytest.mark.parametrize(
    "name", ["lookup-levels", "semiring-composite", "union-laplace", "v2-lookup-levels", "v2-union-laplace"]
)
def test_a_dataset_says_what_its_sketch_says(name):
    sketch = read_sketch(GOLDEN / f"{name}.saibot")
    header, found = sketch.header, Dataset.of(sketch, **PUBLICATION)
    assert (found.name, found.digest, found.rows) == (header.dataset.name, sketch.digest, header.rows)
    assert [feature.name for feature in found.features] == list(sketch.features)
    assert found.budget.to_json() == header.budget and found.neighbours == str(header.neighbours)
    assert {name: getattr(found, name) for name in PUBLICATION} == PUBLICATION
    parts = [part.digest for part in header.key.parts] if header.key else None
    assert parts == (None if found.key is None else [part.digest for part in found.key.parts])
    assert [key.name for key in found.keys] == ([header.key.name] if header.key else [])
    assert (found.account, found.spent and found.spent.to_json()) == (header.account, header.spent)
    assert found.open is False
    assert Dataset.model_validate_json(found.model_dump_json()) == found


def test_answers_of_an_earlier_platform_are_read():
    document = Dataset.of(read_sketch(GOLDEN / "v2-lookup-levels.saibot"), **PUBLICATION).to_json()
    for later in ("keys", "account", "spent", "open"):
        del document[later]
    found = read_answer(Dataset, document)
    assert (found.keys, found.account, found.spent, found.open) == ((), None, None, False)


def test_no_class_of_a_dataset_has_the_name_of_one_of_a_sketch():
    """They are shaped for different readers, and are told apart by their names."""
    kinds = [{name for name, one in vars(room).items() if isinstance(one, type)} for room in (wire_dataset, header_parts)]
    assert {name for name in kinds[0] & kinds[1] if vars(wire_dataset)[name].__module__.startswith("saibot.")} == set()


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
