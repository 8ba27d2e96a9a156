"""Providers, requesters and their jobs against a platform that is told how to behave."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest

from saibot.cli.home import open_ledger as shell_ledger
from saibot.client import (
    Dataset,
    NotFound,
    PlatformUnreachable,
    Provider,
    Published,
    Requester,
    SearchFailed,
    SigningKeys,
    SketchCache,
)
from saibot.domains.csv_text import domain_from_csv, domain_to_csv
from saibot.errors import BudgetExceeded, InvalidDomain, InvalidInput, InvalidSketch, SaibotError
from saibot.privatize import Card
from saibot.sketch import KeyDomain, write_sketch
from saibot.wire import SearchOptions

CARD = """
[dataset]
name = "clinic"
neighbours = "replace-one"
[budget]
cap = { epsilon = "2", delta = "1e-6" }
[features.stay]
column = "nights"
bounds = [0, 30]
[features.age]
bounds = [0, 100]
[keys.ward]
column = "ward_code"
domain = { file = "wards.csv", id = "wards" }
levels = ["building"]
"""


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    (tmp_path / "wards.csv").write_text("ward,building\nA,north\nB,north\nC,south\n")
    (tmp_path / "clinic.toml").write_text(CARD)
    rng = np.random.default_rng(0)
    wards = rng.choice(list("ABC"), 600)
    nights = [{"A": 2, "B": 8, "C": 26}[ward] for ward in wards] + rng.integers(0, 4, 600)
    frame = pd.DataFrame({"ward_code": wards, "nights": nights, "age": 40})
    frame.to_csv(tmp_path / "clinic.csv", index=False)
    return tmp_path


# ------------------------------------------------------------------------------------------------ providers


def test_a_provider_publishes_a_sketch_and_the_domain_of_its_key(fake, clinic, saibot_home):
    provider = Provider(fake.client(), saibot_home)
    sketch = provider.privatize(clinic / "clinic.csv", clinic / "clinic.toml", epsilon="1", key="ward")
    published = provider.publish(sketch, card=clinic / "clinic.toml", visibility="restricted", expires="2030-01-01")
    assert isinstance(published, Dataset) and published.digest == sketch.digest
    assert fake.domains["wards", 1].parents == (("building", ("north", "north", "south")),)
    asked = fake.asked_for("/v1/datasets")[0]
    assert dict(asked.url.params) == {"visibility": "restricted", "expires": "2030-01-01"}
    assert asked.content == write_sketch(SigningKeys().sign(sketch)), "that very sketch, signed on this machine"


def test_no_row_of_a_provider_ever_leaves(fake, clinic, saibot_home):
    frame = pd.read_csv(clinic / "clinic.csv").assign(secret="row-of-somebody")
    provider = Provider(fake.client(), saibot_home)
    provider.publish(provider.privatize(frame, clinic / "clinic.toml", epsilon="1", key="ward"), card=clinic / "clinic.toml")
    assert fake.asked and not any(b"row-of-somebody" in request.content for request in fake.asked)


def test_a_provider_says_what_a_neighbour_is(fake, clinic, saibot_home):
    (clinic / "clinic.toml").write_text(CARD.replace('neighbours = "replace-one"', ""))
    with pytest.raises(InvalidInput, match="neighbouring"):
        Provider(fake.client(), saibot_home).privatize(
            clinic / "clinic.csv", clinic / "clinic.toml", epsilon="1", key="ward"
        )


def test_a_card_of_other_keys_is_not_published_with(fake, clinic, saibot_home):
    provider = Provider(fake.client(), saibot_home)
    sketch = provider.privatize(clinic / "clinic.csv", clinic / "clinic.toml", epsilon="1", key="ward")
    (clinic / "wards.csv").write_text("ward,building\nA,north\nB,north\n")
    with pytest.raises(InvalidInput, match="does not give the key domain"):
        provider.publish(sketch, card=clinic / "clinic.toml")
    assert not fake.sketches


def test_a_damaged_sketch_is_not_sent(fake, sketches, tmp_path, saibot_home):
    (tmp_path / "cut.saibot").write_bytes(write_sketch(sketches[0])[:-100])
    for path in ("cut.saibot", "absent.saibot"):
        with pytest.raises(InvalidSketch):
            Provider(fake.client(), saibot_home).publish(tmp_path / path)
    with pytest.raises(InvalidInput, match="public, restricted or granted"):
        Provider(fake.client(), saibot_home).publish(sketches[0], visibility="secret")
    assert not fake.asked


def test_a_domain_survives_the_journey(fake):
    domain = KeyDomain.of('odd/id "x"', ['a,"b', "line\nbreak", "ü"], parents={"le,vel": ["1", "1", "2"]})
    assert domain_from_csv(domain_to_csv(domain), id=domain.id, version=1) == domain
    with pytest.raises(InvalidDomain):
        domain_from_csv(b'key,level\na,1\nb\n"', id="x", version=1)


def test_another_domain_than_the_one_asked_for_is_refused(fake):
    platform = fake.client()
    platform.register_domain(KeyDomain.of("wards", ["A", "B"]))
    assert platform.domain("wards") == KeyDomain.of("wards", ["A", "B"])
    facts = fake._domain("wards", 1)
    fake._domain = lambda id, version: facts
    fake.domains["wards", 1] = KeyDomain.of("wards", ["A", "C"])
    with pytest.raises(InvalidDomain, match="other keys"):
        platform.domain("wards")


# ------------------------------------------------------------------------------------------------ at home


def test_a_slice_is_fetched_once_and_kept_up_to_date(fake, sketches, tmp_path):
    fake.add(sketches[0])
    published = Published(fake.client(), SketchCache(tmp_path))
    first, _ = published.corpus()
    assert first.digests == (sketches[0].digest,)
    fake.add(sketches[1])
    second, _ = published.corpus()
    assert set(second.digests) == {sketch.digest for sketch in sketches}
    del fake.sketches[sketches[0].digest]
    third, _ = published.corpus()
    assert third.digests == (sketches[1].digest,)
    assert len(fake.asked_for("/v1/sketches/.*")) == 2


def test_what_is_withdrawn_while_it_is_fetched_is_left_out(fake, sketches, tmp_path):
    for sketch in sketches:
        fake.add(sketch)
    listed = fake(httpx.Request("GET", "http://x/v1/corpus"))
    del fake.sketches[sketches[0].digest]
    fake_call = FakeList(fake, listed)
    platform = fake.client()
    platform.wire._http = httpx.Client(base_url=platform.url, transport=httpx.MockTransport(fake_call))
    corpus, _ = Published(platform, SketchCache(tmp_path)).corpus()
    assert corpus.digests == (sketches[1].digest,)


class FakeList:
    """Lists what was there a moment ago."""

    def __init__(self, fake, listed: httpx.Response) -> None:
        self.fake, self.listed = fake, listed.json()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=self.listed) if request.url.path == "/v1/corpus" else self.fake(request)


def test_a_damaged_slice_is_made_anew_without_fetching_anything_again(fake, sketches, tmp_path):
    fake.add(sketches[0])
    published = Published(fake.client(), SketchCache(tmp_path))
    folder = published.corpus()[0].folder
    (folder / "corpus.sqlite").write_text("{")
    assert published.corpus()[0].digests == (sketches[0].digest,)
    assert len(fake.asked_for("/v1/sketches/.*")) == 1


def test_coarser_levels_are_used_once_their_domain_is_registered(fake, clinic, saibot_home, tmp_path):
    provider = Provider(fake.client(), saibot_home)
    sketch = provider.privatize(clinic / "clinic.csv", clinic / "clinic.toml", epsilon="1", key="ward")
    provider.publish(sketch)
    published = Published(fake.client(), SketchCache(tmp_path / "cache"))
    before, notes = published.corpus()
    assert any("building" in note for note in notes)
    flat = before.shards(next(iter(before.key_ids)))[0].values.copy()
    provider.register_domains(clinic / "clinic.toml", sketch)
    after, notes = published.corpus()
    assert notes == () and after.digests == (sketch.digest,)
    assert not np.allclose(after.shards(next(iter(after.key_ids)))[0].values, flat)


def test_nothing_published_is_said_in_so_many_words(fake, tmp_path):
    with pytest.raises(InvalidInput, match="nothing is published"):
        Published(fake.client(), SketchCache(tmp_path)).corpus()


def test_rows_are_searched_at_home_and_nothing_of_them_is_sent(fake, sketches, rows, tmp_path):
    for sketch in sketches:
        fake.add(sketch)
    requester = Requester(fake.client(), cache=tmp_path)
    found = requester.search(rows[:2000], rows[2000:], target="sales", key=["shop", "day"], features=["price"], local=True)
    assert found.columns == ("day-weather.level", "shops-survey.level") or found.columns[0].endswith(".level")
    assert {request.method for request in fake.asked} == {"GET"}
    assert found.result.platform == "http://platform.test"
    wider = found.augment(rows)
    assert len(wider) == len(rows) and set(found.columns) <= set(wider.columns)


# ------------------------------------------------------------------------------------------------ there


@pytest.fixture
def parts(clinic):
    frame = pd.read_csv(clinic / "clinic.csv")
    return frame[:400], frame[400:]


def test_tables_are_privatised_before_they_are_sent(fake, clinic, parts, saibot_home):
    fake.events, fake.result = [[fake.search("done")]], answer()
    requester = Requester(fake.client(), saibot_home)
    terms = {"target": "stay", "key": "ward", "card": clinic / "clinic.toml", "epsilon": "1"}
    found = requester.search(*parts, **terms)
    sent = fake.asked_for("/v1/searches")[0]
    assert sent.headers["content-type"].startswith("multipart/form-data")
    assert sent.content.count(b"ARROW1") == 4 and b"clinic-train" in sent.content and b"clinic-test" in sent.content
    options = json.loads(re.search(rb"\{\"steps\".*?\}", sent.content).group())
    assert options["target"] == "stay" and options["steps"] == 5
    (account,) = requester.ledger.accounts()  # of the whole table; nothing shows that the parts are disjoint, so they add
    assert account.name == "clinic" and 1.3 < account.spent_epsilon < 1.6
    assert [entry.dataset for entry in account.entries] == ["clinic-train", "clinic-test"]
    assert found.result.keys[0].column == "ward_code"  # as the card has it, for rows to be augmented
    assert found.result.model.target.to_json() == {"name": "stay", "column": "nights"}
    assert not found.at_home  # the platform chose: it may be asked for what it chose


def test_a_many_to_many_request_is_privatised_with_products_for_every_key(fake, clinic, parts, sketches, saibot_home):
    fake.events, fake.result = [[fake.search("done")]], answer()
    options = SearchOptions(join="many-to-many")
    requester = Requester(fake.client(), saibot_home)
    with pytest.raises(InvalidInput, match="products per key"):  # a lookup sketch, refused before it is sent
        requester.search(sketches[0], target="level", options=options)
    assert not fake.asked_for("/v1/searches")
    requester.search(*parts, target="stay", key="ward", card=clinic / "clinic.toml", epsilon="1", options=options)
    sent = fake.asked_for("/v1/searches")[0]
    assert json.loads(re.search(rb"\{\"steps\".*?\}", sent.content).group())["join"] == "many-to-many"
    assert b"semiring" in sent.content


def test_python_and_the_shell_spend_from_one_ledger(fake, parts, clinic, saibot_home):
    fake.events, fake.result = [[fake.search("done")]], answer()
    Provider(fake.client()).privatize(clinic / "clinic.csv", clinic / "clinic.toml", epsilon="1", key="ward")
    Requester(fake.client()).search(*parts, target="stay", key="ward", card=clinic / "clinic.toml", epsilon="1")
    (account,) = shell_ledger().accounts()
    assert [entry.dataset for entry in account.entries] == ["clinic", "clinic-train", "clinic-test"]


def test_parts_that_cannot_both_be_paid_are_refused_before_the_first_is_charged(fake, parts, clinic, saibot_home):
    card = Card.read(clinic / "clinic.toml").model_copy(update={"budget": None})  # the cap is then the first release
    requester = Requester(fake.client(), saibot_home)
    with pytest.raises(BudgetExceeded):
        requester.search(*parts, target="stay", key="ward", card=card, epsilon="1")
    assert requester.ledger.accounts() == []
    assert [request.url.path for request in fake.asked] == ["/v1/me"]  # who one is, before a row was read


def test_a_table_without_card_or_epsilon_goes_nowhere(fake, parts, clinic, saibot_home):
    for missing in ({"epsilon": "1"}, {"card": clinic / "clinic.toml"}, {}):
        with pytest.raises(InvalidInput, match="a table does not go to a platform"):
            Requester(fake.client(), saibot_home).search(*parts, target="stay", key="ward", **missing)
    with pytest.raises(InvalidInput, match="one key"):
        Requester(fake.client()).search(*parts, target="stay", key=["ward", "day"])
    assert not fake.asked


def test_a_request_that_makes_no_sense_is_not_sent(fake, sketches):
    with pytest.raises(InvalidInput, match="no feature 'sales'"):
        Requester(fake.client()).search(sketches[0], target="sales")
    assert not fake.asked


def test_waiting_survives_a_broken_connection_and_reports_progress(fake, sketches):
    fake.events = [
        [fake.search("running", progress={"stage": "scoring", "part": 0.5}), {"break": True}],
        [{"break": True}],
        [fake.search("running", progress={"stage": "scoring", "part": 0.9}), fake.search("done")],
    ]
    told: list[tuple[str, float | None]] = []
    job = Requester(fake.client()).submit(sketches[0], target="level")
    job.wait(lambda stage, part: told.append((stage, part)))
    assert job.state.status == "done"
    assert told == [("scoring", 0.5), ("scoring", 0.9), ("done", None)]


def test_waiting_looks_again_where_events_end_early(fake, sketches, monkeypatch):
    monkeypatch.setattr("saibot.client.job.POLLED", 0.0)
    fake.events = [[], [], [fake.search("done")]]
    job = Requester(fake.client()).submit(sketches[0], target="level")
    assert job.wait().status == "done"


def test_waiting_for_a_platform_that_is_gone_ends(fake, sketches):
    fake.events = [[{"break": True}] for _ in range(20)]
    job = Requester(fake.client()).submit(sketches[0], target="level")
    with pytest.raises(PlatformUnreachable) as gone:
        job.wait()
    assert f"saibot searches result {job.id}" in gone.value.hint  # accepted already: it can be fetched later


def test_a_search_that_failed_says_why(fake, sketches):
    requester = Requester(fake.client())
    fake.events = [
        [fake.search("failed", error={"code": "killed", "message": "the worker died.", "hint": "again", "details": {}})]
    ]
    with pytest.raises(SearchFailed, match="the worker died") as failed:
        requester.submit(sketches[0], target="level").wait()
    assert failed.value.hint == "again" and failed.value.code == "killed"
    fake.events = [[fake.search("cancelled")]]
    with pytest.raises(SearchFailed, match="was cancelled"):
        requester.submit(sketches[0], target="level").wait()


def test_waiting_has_an_end_where_one_is_asked_for(fake, sketches, monkeypatch):
    monkeypatch.setattr("saibot.client.job.POLLED", 0.0)
    fake.events = [[fake.search("running")] for _ in range(100)]
    with pytest.raises(SaibotError, match="still under way"):
        Requester(fake.client()).submit(sketches[0], target="level").wait(timeout=0.0)


def test_a_result_that_is_none_is_refused(fake, sketches):
    fake.events, fake.result = [[fake.search("done")]], {"format": "something"}
    with pytest.raises(InvalidInput, match="no result"):
        Requester(fake.client()).search(sketches[0], target="level")


def test_values_of_a_withdrawn_sketch_come_from_the_cache_or_not_at_all(fake, sketches, tmp_path):
    fake.add(sketches[0])
    published = Published(fake.client(), SketchCache(tmp_path))
    published.sketch(sketches[0].digest)
    fake.sketches.clear()
    assert published.sketch(sketches[0].digest).digest == sketches[0].digest
    with pytest.raises(NotFound, match="withdrawn"):
        published.sketch(sketches[1].digest)


def answer() -> dict:
    """A result document in which nothing was found."""
    return {
        "format": "saibot-result",
        "version": 1,
        "request": "clinic-train",
        "target": "stay",
        "private": True,
        "base": {"train_r2": 0.1, "test_r2": 0.1},
        "steps": [],
        "ranked": [],
        "dropped": [],
        "candidates": 0,
        "stopped": "nothing helps",
        "rows": {"train": 400, "test": 200},
        "keys": [{"name": "ward", "column": "ward", "domains": [{"id": "wards", "version": 1, "digest": "0" * 64}]}],
        "columns": [],
        "model": {
            "target": {"name": "stay", "column": "stay"},
            "own": [{"name": "age", "column": "age", "missing": 50.0}],
            "lookups": [],
            "coefficients": {"age": 0.0},
            "intercept": 6.0,
        },
        "notes": [],
    }
