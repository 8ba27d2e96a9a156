"""Open tables in a folder corpus: searched with private ones, and teaching only where somebody vouches for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.client import (
    Corpus,
    Packed,
    Provider,
    find_augmentation,
    local_request,
    open_sketches,
    pack_sketches,
    private_request,
)
from saibot.embedded import embedded
from saibot.errors import InvalidInput
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card
from saibot.search import SearchOptions
from saibot.sketch import Sketch, write_sketch
from tests.support.open_tables import SOURCE, open_facts, open_rows, open_sketch
from tests.support.shared_tables import DOMAIN, KEYS, world

PRIVATE, OPEN = 12, 8


def packed(folder: Path, sketches: Any, **options: Any) -> tuple[Corpus, Packed]:
    files = folder / "files"
    files.mkdir(exist_ok=True)
    for sketch in sketches:
        (files / f"{sketch.digest[:16]}.saibot").write_bytes(write_sketch(sketch))
    return pack_sketches(folder / "corpus", [files], unsafe=True, **options)


def everything() -> list[Sketch]:
    return [*world(tables=PRIVATE).sketches, *(open_sketch(number) for number in range(OPEN))]


def taught(corpus: Corpus) -> set[str]:
    (id,) = corpus.key_ids
    shared = corpus.factors(id)
    assert shared is not None
    return set(shared.taught)


def agreement(corpus: Corpus) -> float:
    """Of the private tables' values with the truth."""
    truth, (id,) = world(tables=PRIVATE).truth, corpus.key_ids
    found = {
        str(digest): np.corrcoef(values[:-1], truth[str(digest)])[0, 1] ** 2
        for shard in corpus.shards(id)
        for digest, values in zip(shard.text["digest"], shard.values, strict=True)
        if str(digest) in truth
    }
    assert len(found) == PRIVATE
    return float(np.mean(list(found.values())))


def test_open_tables_teach_where_somebody_vouches_for_them_and_not_by_default(tmp_path: Path) -> None:
    private = {sketch.digest for sketch in world(tables=PRIVATE).sketches}
    corpus, found = packed(tmp_path, everything())
    assert taught(corpus) == private and corpus.open_with(corpus.key_ids[0]) == set(corpus.digests) - private
    assert (found.open_tables, found.open_teach) == (OPEN, False)
    assert found.to_json()["open"] == {"sketches": OPEN, "teach": False}
    alone = agreement(corpus)
    corpus, found = packed(tmp_path, (), trust_open=True)
    assert taught(corpus) == set(corpus.digests) and found.open_teach
    assert agreement(corpus) > alone + 0.01
    version = corpus.factors(corpus.key_ids[0])
    corpus, _ = packed(tmp_path, (), trust_open=True)
    assert corpus.factors(corpus.key_ids[0]) is not None and version is not None
    assert corpus.factors(corpus.key_ids[0]).version == version.version, "nothing is due"  # type: ignore[union-attr]
    corpus, _ = packed(tmp_path, ())
    assert taught(corpus) == private, "who vouches no longer has them unlearned"


def test_the_values_of_an_open_table_stay_exact_whatever_is_learned(tmp_path: Path) -> None:
    corpus, _ = packed(tmp_path, everything(), trust_open=True)
    frame, means = open_rows(2)
    (id,) = corpus.key_ids
    shard, row = next(
        (shard, row)
        for shard in corpus.shards(id)
        for row, digest in enumerate(shard.text["digest"])
        if digest == open_sketch(2).digest
    )
    has_rows = np.isin(DOMAIN.values, frame["place"])
    values = shard.values[row][:-1] + shard.numbers["mean"][row]
    assert shard.factors and np.allclose(values[has_rows], means[has_rows], atol=1e-4)


def asked(means: np.ndarray, rows: int = 2000) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    place = rng.integers(0, KEYS, rows)
    return pd.DataFrame({"place": np.array(DOMAIN.values)[place], "y": means[place] + 0.2 * rng.normal(size=rows)})


@pytest.mark.parametrize("trusted", [False, True])
def test_one_search_finds_open_and_private_tables(tmp_path: Path, trusted: bool) -> None:
    corpus, _ = packed(tmp_path, everything(), trust_open=trusted)
    request = local_request(asked(open_rows(4)[1]), target="y", keys={"place": DOMAIN}, features=[])
    found = find_augmentation(request, corpus, SearchOptions(steps=1, shown=100))
    best = found.result.steps[0]
    assert (best.dataset, best.note) == ("open4", "an open table: its values are exact")
    names = {entry.dataset for entry in found.result.ranked}
    assert {"open0", "table0"} <= names
    joined = found.augment(pd.DataFrame({"place": DOMAIN.values}))["open4.x"]
    has_rows = np.isin(DOMAIN.values, open_rows(4)[0]["place"])
    assert np.allclose(joined[has_rows], open_rows(4)[1][has_rows], atol=1e-4)


def test_an_open_table_with_products_can_be_joined_row_by_row(tmp_path: Path) -> None:
    sketches = [open_sketch(number, layout="semiring") for number in range(3)]
    corpus, _ = packed(tmp_path, [*sketches, *world(tables=2).sketches])
    request = local_request(asked(open_rows(1)[1]), target="y", keys={"place": DOMAIN}, features=[])
    found = find_augmentation(request, corpus, SearchOptions(steps=1, join="many-to-many"))
    assert found.result.steps[0].dataset == "open1"


def test_open_rows_can_be_added_to_a_request(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)

    def rows(count: int) -> pd.DataFrame:
        x = rng.uniform(-1, 1, (count, 3))
        return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": np.clip(x @ [0.4, 0.3, 0] + 0.3 * x[:, 2], -1, 1)})

    features = {name: {"bounds": [-1, 1]} for name in "aby"}
    card = {"dataset": {"name": "more"}, "features": features}
    ledger = Ledger(tmp_path / "ledger")

    (sketch,) = open_sketches(rows(4000), Card.parse(card), ledger, source=SOURCE, yes=True)
    corpus, _ = packed(tmp_path, [sketch])
    request = local_request(
        rows(12),
        test=rows(400),
        target="y",
        keys=[],
        features=["a", "b"],
        card=Card.parse(card | {"dataset": {"name": "r"}}),
    )
    found = find_augmentation(request, corpus, SearchOptions(steps=1, unions=True, always_first=True))
    assert [(step.kind, step.dataset) for step in found.result.steps] == [("union", "more")]
    assert "an open table" in found.result.steps[0].note


# ------------------------------------------------------------------------------------------------ publishing in Python


def test_nobody_publishes_an_open_table_without_saying_so(tmp_path: Path) -> None:
    with embedded(tmp_path / "platform") as platform:
        provider = Provider(platform.as_account("census", ["provider"]), tmp_path / "ledger")
        frame, card = open_rows(0)[0], open_facts("places")

        described = Card.parse(card)
        with pytest.raises(InvalidInput, match="anybody may see it, cell by cell"):
            provider.publish_open(frame, described, source=SOURCE)
        assert list(platform.datasets()) == []
        (dataset,) = provider.publish_open(frame, described, source=SOURCE, yes=True)
        assert (dataset.open, dataset.source, dataset.budget, dataset.confirmed) == (True, SOURCE, None, False)
        assert (dataset.mechanism, dataset.layout, dataset.rows) == ("exact", "lookup", 1500)
        assert provider.ledger.accounts() == []
        (again,) = provider.publish_open(frame, described, source=SOURCE, yes=True)
        assert (again.version, again.digest) == (1, dataset.digest)
        confirmed = platform.confirm(dataset.id, dataset.digest)
        assert confirmed.confirmed and platform.dataset(dataset.id).confirmed


def test_an_open_sketch_is_no_private_request(tmp_path: Path) -> None:

    path = tmp_path / "open.saibot"
    path.write_bytes(write_sketch(open_sketch(0)))
    with pytest.raises(InvalidInput, match="no private request"):
        private_request(path, target="x")
