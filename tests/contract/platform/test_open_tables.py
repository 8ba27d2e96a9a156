"""Open tables on a platform: published and searched like all others, confirmed by an admin, teaching only after that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.client import Platform, Requester
from saibot.client.cache import SketchCache
from saibot.platform import Settings
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card
from saibot.privatize.open_table import OpenRequest, exact_sketch
from saibot.search.corpus import Corpus
from saibot.sketch import Sketch, write_sketch
from tests.contract.platform.conftest import SHOPS
from tests.support.open_tables import SOURCE, open_rows, open_sketch
from tests.support.shared_tables import DOMAIN, KEYS, world


def shops(tmp_path: Path, name: str = "census", *, seed: int = 0, key: str | None = "shop") -> bytes:
    """The exact sketch of a public table that says what the request's target follows."""
    levels = np.random.default_rng(3).uniform(20, 80, len(SHOPS))
    frame = pd.DataFrame({"shop": SHOPS, "level": np.clip(levels + seed, 0, 100)})
    facts = {
        "dataset": {"name": name, "title": "Counted by everybody"},
        "features": {"level": {"bounds": [0, 100], "unit": "point"}},
        "keys": {"shop": {"column": "shop", "domain": {"values": SHOPS, "id": "shops"}}},
    }
    request = OpenRequest(Card.parse(facts), SOURCE, key)
    return write_sketch(exact_sketch(frame, request, Ledger(tmp_path / "ledger")).sketch)


def test_an_open_dataset_is_listed_and_shown_with_its_source_and_without_a_price(
    server: Any, verbs: Any, tmp_path: Path
) -> None:
    provider = server.account("provider")
    answer = verbs.publish(provider, shops(tmp_path))
    assert answer.status_code == 201, answer.text
    dataset = answer.json()
    assert (dataset["open"], dataset["source"], dataset["confirmed"], dataset["budget"]) == (True, SOURCE, False, None)
    assert (dataset["mechanism"], dataset["layout"], dataset["rows"]) == ("exact", "lookup", len(SHOPS))
    visitor = server.client()
    assert visitor.get("/v1/datasets", params={"provider": provider.account}).json()["items"] == [dataset]
    shown = visitor.get(f"/v1/datasets/{dataset['id']}").json()
    assert shown["profile"]["features"][0]["mean"]["error"] == 0.0
    assert visitor.get(f"/v1/datasets/{dataset['id']}/related").status_code == 200


def test_open_datasets_come_last_where_the_best_protected_come_first(
    server: Any, verbs: Any, sketches: dict[str, bytes], tmp_path: Path
) -> None:
    provider = server.account("provider")
    verbs.publish(provider, shops(tmp_path))
    verbs.publish(provider, sketches["good"])
    query = {"provider": provider.account, "sort": "epsilon", "limit": 1}
    first = provider.get("/v1/datasets", params=query).json()
    second = provider.get("/v1/datasets", params=query | {"cursor": first["next"]}).json()
    assert [page["items"][0]["open"] for page in (first, second)] == [False, True]


def test_only_an_admin_confirms_a_source_and_nobody_that_of_their_own(server: Any, verbs: Any, tmp_path: Path) -> None:
    name = "keeper"
    owner = server.account("provider", "admin", name=f"{name}-{tmp_path.name}")
    dataset = verbs.publish(owner, shops(tmp_path)).json()
    address, query = f"/v1/datasets/{dataset['id']}/confirm", {"digest": dataset["digest"]}
    callers = [server.client(), server.account("requester"), server.account("provider"), owner]
    assert [caller.post(address, params=query).status_code for caller in callers] == [401, 403, 403, 403]
    assert not owner.get(f"/v1/datasets/{dataset['id']}").json()["confirmed"]
    assert server.admin.post(address, params={"digest": "0" * 64}).status_code == 409, "of what was looked at"
    answer = server.admin.post(address, params=query)
    assert (answer.status_code, answer.json()) == (200, dataset | {"confirmed": True})
    assert server.admin.post(address, params=query).status_code == 200
    trail = server.admin.get("/v1/audit", params={"limit": 50}).json()["items"]
    noted = [entry for entry in trail if entry["action"] == "confirm" and entry["subject"] == dataset["id"]]
    assert [entry["facts"] for entry in noted] == [{"digest": dataset["digest"]}]


def test_a_new_version_has_to_be_confirmed_again(server: Any, verbs: Any, tmp_path: Path) -> None:
    provider = server.account("provider")
    first = verbs.publish(provider, shops(tmp_path)).json()
    server.admin.post(f"/v1/datasets/{first['id']}/confirm", params={"digest": first["digest"]})
    same = verbs.publish(provider, shops(tmp_path)).json()
    assert same["confirmed"] and same["version"] == 1
    second = verbs.publish(provider, shops(tmp_path, seed=1)).json()
    assert (second["version"], second["confirmed"]) == (2, False)


@pytest.mark.parametrize("open_first", [True, False])
def test_a_table_is_open_or_private_and_not_both(
    server: Any, verbs: Any, make_sketch: Callable[..., Sketch], tmp_path: Path, open_first: bool
) -> None:
    provider = server.account("provider")
    contents = [shops(tmp_path, "both"), write_sketch(make_sketch("both", seed=71))]
    first, second = contents if open_first else contents[::-1]
    assert verbs.publish(provider, first).status_code == 201
    answer = verbs.publish(provider, second)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")
    other_key = shops(tmp_path, "both", key=None) if not open_first else write_sketch(make_sketch("both", key=None, seed=72))
    assert verbs.publish(provider, other_key).status_code == 409
    assert verbs.publish(server.account("provider"), second).status_code == 201, "another's table of that name"


def test_one_private_search_covers_open_and_private_data(
    server: Any, verbs: Any, sketches: dict[str, bytes], tmp_path: Path
) -> None:
    provider, asker = server.account("provider"), server.account("requester")
    verbs.publish(provider, shops(tmp_path, seed=2))  # with numbers that no other test has published
    verbs.publish(provider, sketches["useless"])
    job = verbs.ask(asker, sketches["train"], sketches["test"], steps=1, shown=100).json()
    assert verbs.wait(asker, job["id"])["status"] == "done"
    ranked = asker.get(f"/v1/searches/{job['id']}/result").json()["ranked"]
    notes = {entry["dataset"]: entry["note"] for entry in ranked}
    assert "an open table" in notes["census"] and "an open table" not in notes["noise"]
    # The server is shared with other tests, whose tables may be better still: only these two are compared.
    gains = {entry["dataset"]: entry["gain"] for entry in ranked}
    assert gains["census"] > gains["noise"] + 0.1


def test_an_open_sketch_is_no_request(server: Any, verbs: Any, tmp_path: Path) -> None:
    asker = server.account("requester")
    answer = verbs.ask(asker, shops(tmp_path), target="level")
    if answer.status_code < 400:
        found = verbs.wait(asker, answer.json()["id"])
        assert found["status"] == "failed" and "no private request" in found["error"]["message"]
    else:
        assert "no private request" in answer.json()["error"]["message"]


# ------------------------------------------------------------------------------------------------ teaching


@pytest.fixture(scope="module")
def school(start_in_process: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Twelve private tables and two open ones, on a platform whose lessons begin when a test says so."""
    settings = Settings(
        data=tmp_path_factory.mktemp("open") / "data", workers=1, pages=False, log_level="error", write_burst=10_000
    )
    for server in start_in_process(settings):
        server.open = []
        for number, sketch in enumerate([*world(tables=12, real=True).sketches, open_sketch(0), open_sketch(1)]):
            client = server.account("provider", name=f"provider{number % 7}")
            answer = client.post(
                "/v1/datasets",
                content=write_sketch(sketch),
                headers={"Content-Type": "application/octet-stream"},
            )
            assert answer.status_code == 201, answer.text
            server.open += [answer.json()] if sketch.header.open else []
        server.app.state.platform.shards.catch_up()
        yield server


def taught(server: Any) -> set[str]:
    """Who taught what is in use, once everything that is due was learned."""
    server.app.state.platform.shards.lessons.learn_if_due()
    corpus = Corpus(server.settings.data / "corpus")
    (id,) = corpus.key_ids
    shared = corpus.factors(id)
    assert shared is not None
    return set(shared.taught)


def test_an_open_table_teaches_after_its_source_was_confirmed(school: Any) -> None:
    private = {sketch.digest for sketch in world(tables=12, real=True).sketches}
    assert taught(school) == private
    first, _ = school.open
    school.admin.post(f"/v1/datasets/{first['id']}/confirm", params={"digest": first["digest"]})
    assert taught(school) == private | {first["digest"]}
    assert taught(school) == private | {first["digest"]}, "nothing more is due"


def test_what_is_restricted_after_it_taught_is_unlearned(school: Any, verbs: Any) -> None:
    before = taught(school)
    quiet = world(tables=12, real=True).sketches[3]
    owner = school.account("provider", name="provider3")
    assert verbs.publish(owner, write_sketch(quiet), visibility="restricted").status_code == 200
    assert taught(school) == before - {quiet.digest}


def test_a_search_at_home_meets_open_and_private_tables_alike(school: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    place = rng.integers(0, KEYS, 3000)
    means = open_rows(1)[1]
    table = pd.DataFrame({"place": np.array(DOMAIN.values)[place], "y": means[place] + 0.2 * rng.normal(size=3000)})
    platform = Platform("http://platform", transport=school.client()._transport)
    found = Requester(platform, cache=SketchCache(tmp_path)).search(table, target="y", key="place", local=True)
    assert found.result.steps[0].dataset == "open1"
    joined = found.augment(pd.DataFrame({"place": DOMAIN.values}))["open1.x"]
    has_rows = np.isin(DOMAIN.values, open_rows(1)[0]["place"])
    assert np.allclose(joined[has_rows], means[has_rows], atol=1e-4)
