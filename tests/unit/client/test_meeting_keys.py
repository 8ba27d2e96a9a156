"""Providers who list the requester's keys in another order, in part, in another case or with other zeros are found.

By a table and by a private sketch, in a corpus on disk and on a platform in this process; and the result says so.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.client import (
    Augmented,
    Corpus,
    Domains,
    Provider,
    Requester,
    SearchOptions,
    find_augmentation,
    local_request,
    private_request,
)
from saibot.embedded import embedded
from saibot.privatize import Card
from saibot.sketch import write_sketch

SCHOOLS = [f"0{i:02d}m" for i in range(1, 41)]
LEVEL = dict(zip(SCHOOLS, np.random.default_rng(3).permutation(np.linspace(1, 9, len(SCHOOLS))), strict=True))

Change = Callable[[list[str]], dict[str, str]]  # the provider's key for each of ours that it has

CHANGES: dict[str, tuple[Change, str]] = {
    "another order": (lambda ours: {key: key for key in reversed(ours)}, "all 40 keys of schools"),
    "a part": (lambda ours: {key: key for key in ours[:24]}, "60 % of the keys of schools (24 of 40)"),
    "one more": (lambda ours: {key: key for key in ours} | {"": "new"}, "all 40 keys of schools"),
    "another case": (lambda ours: {key: key.upper() for key in ours}, "in another case"),
    "other zeros": (lambda ours: {key: key.lstrip("0") for key in ours}, "with other zeros in front"),
}


def card(name: str, feature: str, keys: list[str], id: str) -> Card:
    return Card.parse({
        "dataset": {"name": name, "neighbours": "replace-one"},
        "budget": {"cap": {"epsilon": "1000", "delta": "1e-4"}},
        "features": {feature: {"bounds": [0, 10]}},
        "keys": {"school": {"domain": {"values": keys, "id": id}}},
    })  # fmt: skip


def rows(keys: dict[str, str], feature: str, count: int, seed: int, noise: float) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ours = rng.choice([key for key in keys if key], count)
    values = np.array([LEVEL[key] for key in ours]) + rng.normal(0, noise, count)
    return pd.DataFrame({"school": [keys[key] for key in ours], feature: np.clip(values, 0, 10)})


@pytest.fixture(scope="module", params=CHANGES)
def meeting(request, tmp_path_factory) -> dict[str, Any]:
    """A provider with the changed keys, published on a platform and packed in a corpus; a request of our own keys."""
    change, words = CHANGES[request.param]
    home, keys = tmp_path_factory.mktemp("home"), change(SCHOOLS)
    theirs = card("survey", "score", list(keys.values()), "their-schools")
    mine = card("mine", "cost", SCHOOLS, "schools")
    own = rows({key: key for key in SCHOOLS}, "cost", 4000, 1, 1.0)
    with embedded(home / "platform") as platform:
        provider = Provider(platform.as_account("provider", ["provider"]), home / "ledger")
        sketch = provider.privatize(rows(keys, "score", 12000, 0, 0.3), theirs, epsilon="20", key="school")
        provider.publish(sketch, card=theirs)
        train = provider.privatize(own, mine, epsilon="20", key="school")
        corpus = Corpus.create(home / "corpus")
        assert corpus.add([sketch]) == []
        requester = Requester(platform.as_account("asker", ["requester"]), home / "ledger", cache=home / "cache")
        yield {
            "words": words, "keys": keys, "own": own, "train": train, "corpus": home / "corpus", "requester": requester
        }  # fmt: skip


def ask(meeting: dict[str, Any], way: str) -> Augmented:
    own, options = meeting["own"], SearchOptions(engine="threads")
    match way.split():
        case ["table", "corpus"]:
            corpus = Corpus(meeting["corpus"])
            request = local_request(own, target="cost", keys=["school"], domains=Domains(corpus))
            return find_augmentation(request, corpus, options)
        case ["sketch", "corpus"]:
            return find_augmentation(private_request(meeting["train"], target="cost"), Corpus(meeting["corpus"]), options)
        case ["table", "platform"]:
            return meeting["requester"].search(own, target="cost", key="school", local=True)
    return meeting["requester"].search(meeting["train"], target="cost", key="school")


@pytest.mark.parametrize("way", ["table corpus", "sketch corpus", "table platform", "sketch platform"])
def test_the_provider_is_found_joined_and_the_result_says_how(meeting, way) -> None:
    found = ask(meeting, way)
    assert found.columns == ("survey.score",)
    (step,) = found.result.steps
    has = [key for key in SCHOOLS if key in meeting["keys"]]
    inside = meeting["own"].school.isin(has)
    assert step.coverage == pytest.approx(inside.mean(), abs=0.01)
    said = " ".join([step.note, *found.result.notes])
    expected = meeting["words"] if way.startswith("sketch") else said_of_a_table(meeting["words"])
    assert expected in said
    values = found.augment(meeting["own"])["survey.score"]
    true = meeting["own"].school.map(LEVEL)
    assert np.corrcoef(values[inside], true[inside])[0, 1] > 0.98
    assert values[~inside].nunique() <= 1  # what the provider says of keys outside its domain


def said_of_a_table(words: str) -> str:
    """A table's keys are looked up in the provider's own domain: the share is of its rows."""
    return words if words.startswith(("in ", "with ")) else "their-schools"


def test_a_corpus_without_key_lists_is_read_from_its_sketches(meeting, tmp_path) -> None:
    old = Path(shutil.copytree(meeting["corpus"], tmp_path / "old"))
    shutil.rmtree(old / "keys")
    found = find_augmentation(private_request(meeting["train"], target="cost"), Corpus(old), SearchOptions(engine="threads"))
    assert found.columns == ("survey.score",) and meeting["words"] in found.result.steps[0].note


def test_keys_of_somebody_else_make_no_candidate_and_the_result_names_why(tmp_path, saibot_home) -> None:
    strange = {key: f"x{key}" for key in SCHOOLS[2:]} | {key: key for key in SCHOOLS[:2]}
    with embedded(tmp_path / "platform") as platform:
        provider = Provider(platform.as_account("provider", ["provider"]), saibot_home)
        theirs = card("survey", "score", list(strange.values()), "their-schools")
        sketch = provider.privatize(rows(strange, "score", 400, 0, 0.3), theirs, epsilon="20", key="school")
        train = provider.privatize(
            rows({key: key for key in SCHOOLS}, "cost", 400, 1, 1.0),
            card("mine", "cost", SCHOOLS, "schools"),
            epsilon="20",
            key="school",
        )
    corpus = Corpus.create(tmp_path / "corpus")
    assert corpus.add([sketch]) == []
    found = find_augmentation(private_request(train, target="cost"), corpus, SearchOptions(engine="threads"))
    assert found.columns == () and found.result.candidates == 0
    (dropped,) = [one for one in found.result.dropped if "key" in one.reason]
    assert "2 of the 40 keys of schools are among their-schools" in dropped.reason and dropped.examples == ("survey",)


def test_the_list_of_keys_goes_with_the_last_sketch_that_has_it(meeting, tmp_path) -> None:
    corpus = Corpus(Path(shutil.copytree(meeting["corpus"], tmp_path / "copy")))
    assert len(list((corpus.folder / "keys").iterdir())) == 1
    (digest,) = corpus.digests
    corpus.remove(digest)
    assert list((corpus.folder / "keys").iterdir()) == []


def test_the_shell_says_on_which_keys_a_step_was_joined(meeting, tmp_path) -> None:
    from typer.testing import CliRunner

    from saibot.cli.app import app

    (tmp_path / "train.saibot").write_bytes(write_sketch(meeting["train"]))
    asked = ["search", "--train", str(tmp_path / "train.saibot"), "--target", "cost", "--corpus", str(meeting["corpus"])]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0 and meeting["words"] in done.output
