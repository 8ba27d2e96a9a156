"""One hop further: values of a dataset that only another dataset's counts lead to."""

from __future__ import annotations

import numpy as np
import pytest

from saibot.search import Corpus, RequestKey
from saibot.search import hops as module
from saibot.search.hops import hop_shards
from saibot.search.key_maps import Views, view_id
from saibot.sketch import KeyDomain

from .conftest import rows_of

NEAR, FAR = KeyDomain.of("near", ["a", "b", "c"]), KeyDomain.of("far", ["p", "q"])


@pytest.fixture
def corpus(tmp_path):
    made = Corpus.create(tmp_path / "c")
    made.add_rows(view_id([FAR.keys_digest]), rows_of(np.array([[1.0, -1.0, 0.0]]), ["beyond"]))
    made.add_rows(view_id([NEAR.keys_digest, FAR.keys_digest]), rows_of(np.zeros((1, 7)), ["bridge"]))
    return made


def test_the_value_of_a_key_is_the_mean_over_its_spread(corpus, monkeypatch):
    spread = np.array([[1.0, 0.0], [0.25, 0.75], [0.0, 0.0]])
    monkeypatch.setattr(module, "spread_over", lambda *_: spread)
    ((view, shard),) = hop_shards(corpus, Views(RequestKey.product([("k", NEAR)])))
    assert view.name == "k"
    np.testing.assert_allclose(shard.values, [[1.0, -0.5, 0.0, 0.0]])
    assert list(shard.text["dataset"]) == ["beyond via bridge"]
    assert list(shard.text["via"]) == [next(d for d in corpus.digests if corpus.name_of(d) == "bridge")]


def test_the_spread_is_read_from_a_real_sketchs_counts(tmp_path):
    import pandas as pd

    from saibot.privacy import Budget, Neighbours
    from saibot.privacy.ledger import Ledger
    from saibot.privatize import Card, ReleaseRequest, privatize

    document = {
        "dataset": {"name": "bridge"},
        "features": {"x": {"bounds": [0, 1]}},
        "keys": {
            "near": {"domain": {"values": ["a", "b", "c"], "id": "near"}},
            "far": {"domain": {"values": ["p", "q"], "id": "far"}},
            "both": {"parts": ["near", "far"]},
        },
    }
    table = pd.DataFrame({"near": ["a"] * 300 + ["b"] * 400, "far": ["p"] * 400 + ["q"] * 300, "x": 0.5})
    request = ReleaseRequest(Card.parse(document), Budget("1000", "1e-6"), Neighbours.REPLACE_ONE, key="both")
    made = Corpus.create(tmp_path / "c")
    made.add([privatize(table, request, Ledger(tmp_path / "home")).sketch])
    (digest,) = made.digests
    np.testing.assert_allclose(module.spread_over(made, digest, 0)[:2], [[1, 0], [0.25, 0.75]], atol=0.05)
    np.testing.assert_allclose(module.spread_over(made, digest, 1)[1, :2], [0, 1], atol=0.05)


def test_what_the_request_reaches_by_itself_takes_no_hop(corpus):
    assert hop_shards(corpus, Views(RequestKey.product([("k", NEAR), ("l", FAR)]))) == []
    assert hop_shards(corpus, Views(RequestKey.product([("k", KeyDomain.of("else", ["x"]))]))) == []
