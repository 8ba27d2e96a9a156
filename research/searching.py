"""The search that users get, run on simulated sketches: a corpus of them, a request, and the table that it takes first.

Nothing here scores, ranks or looks up: `saibot.client` and `saibot.search` do, as they would for anybody.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from saibot.client.augmented import Augmented, find_augmentation
from saibot.search import Corpus, SearchOptions, SearchRequest, search
from saibot.search.document import result_of
from saibot.search.learning import learn
from saibot.sketch import KeyDomain, Sketch

Ranking = Literal["usable", "expected"]
RankedFor = Literal["new keys", "these keys"]  # what is left of a gain on keys that training has not; the gain as it is
RANKINGS: tuple[Ranking, ...] = ("usable", "expected")


def dataset_name(number: int) -> str:
    return f"table-{number}"


@dataclass(frozen=True)
class Choice:
    """The table that a search takes first, and its private values for every key of the domain, in original units."""

    number: int
    values: np.ndarray


@contextmanager
def corpus_of(domain: KeyDomain, sketches: Sequence[Sketch], *, learned: bool = True) -> Iterator[Corpus]:
    """What a platform would hold of these sketches, while it is searched; table i is called `dataset_name(i)`.

    As `saibot pack` and a platform do, it learns what the sketches have in common; or each table stands for itself.
    """
    with tempfile.TemporaryDirectory(prefix="saibot-research-") as folder:
        corpus = Corpus.create(Path(folder) / "corpus")
        refused = corpus.add(sketches, {domain.digest: domain})
        assert not refused, refused
        if learned:
            learn(corpus)
        yield corpus


def choose(
    request: SearchRequest,
    corpus: Corpus,
    ranking: Ranking = "usable",
    *,
    among: Sequence[int] | None = None,
    ranked_for: RankedFor = "new keys",
) -> Choice:
    """The first step of a search, taken whatever its bound, as in the paper; `among` some of the tables, or all.

    For `these keys` a local request is ranked by its gains as they are, without own averages in the base model: nobody is
    offered that, and it is what the ranking for new keys is compared with.
    """
    if among is not None:  # the others are left out as a requester's own datasets are
        wanted = {dataset_name(number) for number in among}
        names = {corpus.name_of(digest) for digest in corpus.digests}
        request = replace(request, own=(*request.own, *(names - wanted)))
    options = SearchOptions(rank=ranking, steps=1, always_first=True, unions=False, shown=1, engine="threads")
    if ranked_for == "these keys":
        as_they_are = search(request, corpus, options.but(gain="known"))
        found = Augmented(result_of(as_they_are, request, at_home=True), corpus)
    else:
        found = find_augmentation(request, corpus, options)
    (column,) = found.result.columns
    (key,) = found.result.keys
    assert request.key is not None
    keys = pa.table({key.column: pa.array(request.key.parts[0][1].values, pa.string())})
    return Choice(int(column.dataset.removeprefix("table-")), found.values(keys)[column.name])
