"""A sketch that is not private never reaches the wire: not one byte, by whichever way it is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from saibot.cli.app import app
from saibot.client import Provider, Requester
from saibot.errors import InvalidSketch, SaibotError
from saibot.privacy.ledger import Ledger
from saibot.sketch import Sketch, write_sketch

CARD = """
[dataset]
name = "clinic"
neighbours = "replace-one"
[features.stay]
bounds = [0, 30]
[features.age]
bounds = [0, 100]
[keys.ward]
domain = { file = "wards.csv", id = "wards" }
"""


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    (tmp_path / "wards.csv").write_text("ward\nA\nB\nC\n")
    (tmp_path / "clinic.toml").write_text(CARD)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"ward": rng.choice(list("ABC"), 300), "stay": rng.uniform(0, 30, 300), "age": 40})
    frame.to_csv(tmp_path / "clinic.csv", index=False)
    return tmp_path


@pytest.fixture
def private(clinic: Path, saibot_home: Path, fake) -> Sketch:
    provider = Provider(fake.client(), saibot_home)
    return provider.privatize(clinic / "clinic.csv", clinic / "clinic.toml", epsilon="1", key="ward")


@pytest.fixture(params=["simulated", "prepared from its rows"])
def unsafe(request: pytest.FixtureRequest, private: Sketch) -> Sketch:
    header = private.header
    if request.param == "simulated":
        assumed = header.assumptions.model_copy(update={"noise": "simulated"})
        changed = header.model_copy(update={"simulation": True, "assumptions": assumed})
    else:
        prepared = header.preparation.model_copy(update={"kind": "nonprivate"})
        changed = header.model_copy(update={"preparation": prepared})
    return replace(private, header=changed).sealed()


def test_a_sketch_that_is_not_private_is_not_published(fake, clinic, unsafe, saibot_home, tmp_path):
    provider = Provider(fake.client(), saibot_home)
    (tmp_path / "unsafe.saibot").write_bytes(write_sketch(unsafe))
    for sketch in (unsafe, tmp_path / "unsafe.saibot"):
        for card in (None, clinic / "clinic.toml"):
            with pytest.raises(InvalidSketch, match=r"stays here.*Nothing was sent") as refused:
                provider.publish(sketch, card=card)
            assert refused.value.hint
    assert not fake.asked


def test_nor_is_the_domain_of_its_key_registered(fake, clinic, unsafe, saibot_home):
    with pytest.raises(InvalidSketch, match="stays here"):
        Provider(fake.client(), saibot_home).register_domains(clinic / "clinic.toml", unsafe)
    assert not fake.asked


def test_one_of_several_that_may_not_leave_keeps_all_of_them(fake, clinic, private, unsafe, saibot_home):
    with pytest.raises(InvalidSketch, match="stays here"):
        Provider(fake.client(), saibot_home).publish_all([private, unsafe], card=clinic / "clinic.toml")
    assert not fake.asked
    Provider(fake.client(), saibot_home).publish_all([private, private], card=clinic / "clinic.toml")
    assert len(fake.asked_for("/v1/datasets")) == 2


@pytest.fixture
def shell(fake, clinic: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """Types a command whose platform is the fake one."""
    monkeypatch.setattr("saibot.client.config.Platform", lambda url, token: fake.client())
    monkeypatch.chdir(clinic)

    def typed(*arguments: str) -> object:
        done = CliRunner().invoke(app, [*arguments, "--platform", "http://platform.test"])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    return typed


def test_the_command_checks_every_sketch_before_it_sends_the_first(fake, shell, clinic, private, unsafe):
    (clinic / "a.saibot").write_bytes(write_sketch(private))
    (clinic / "b.saibot").write_bytes(write_sketch(unsafe))
    (clinic / "c.saibot").write_bytes(write_sketch(private)[:-100])
    for last in ("b.saibot", "c.saibot", "absent.saibot"):
        with pytest.raises(SaibotError):
            shell("publish", "a.saibot", last, "--card", "clinic.toml")
    assert not fake.asked
    shell("publish", "a.saibot", "--card", "clinic.toml")
    assert [request.method for request in fake.asked] == ["GET", "PUT", "POST"], "its key, the key domain, the sketch"


def test_what_the_papers_preparation_made_is_refused_at_the_door(fake, shell, clinic):
    made = CliRunner().invoke(
        app, ["privatize", "clinic.csv", "--key", "ward", "--epsilon", "1", "--prepare", "paper", "--out", "p.saibot"]
    )
    assert made.exit_code == 0, made.output
    with pytest.raises(InvalidSketch, match="without paying") as refused:
        shell("publish", "p.saibot", "--card", "clinic.toml")
    assert "--prepare paper" in refused.value.hint
    assert not fake.asked


# ------------------------------------------------------------------------------------------------ requests


def test_a_request_with_a_sketch_that_is_not_private_is_not_sent(fake, private, unsafe, saibot_home):
    requester = Requester(fake.client(), saibot_home)
    for train, test in ((unsafe, None), (unsafe, private), (private, unsafe)):
        for ask in (requester.submit, requester.search):
            with pytest.raises(InvalidSketch, match="stays here"):
                ask(train, test, target="stay")
    assert not fake.asked


def test_such_a_test_part_costs_the_training_table_nothing(fake, clinic, unsafe, tmp_path):
    requester = Requester(fake.client(), tmp_path / "ledger")
    terms = {"target": "stay", "key": "ward", "card": clinic / "clinic.toml", "epsilon": "1"}
    with pytest.raises(InvalidSketch, match="stays here"):
        requester.submit(clinic / "clinic.csv", unsafe, **terms)
    assert not fake.asked and not Ledger(tmp_path / "ledger").accounts()


def test_a_part_that_was_made_here_and_is_not_private_is_not_sent(fake, clinic, unsafe, tmp_path, monkeypatch):
    monkeypatch.setattr("saibot.client.requester.privatised", lambda *table, **terms: unsafe)
    requester = Requester(fake.client(), tmp_path / "ledger")
    terms = {"target": "stay", "key": "ward", "card": clinic / "clinic.toml", "epsilon": "1"}
    with pytest.raises(InvalidSketch, match="stays here"):
        requester.search(clinic / "clinic.csv", **terms)
    assert [request.url.path for request in fake.asked] == ["/v1/me"]  # before a row was read


def test_the_search_command_sends_no_such_sketch(fake, shell, clinic, private, unsafe):
    (clinic / "train.saibot").write_bytes(write_sketch(private))
    (clinic / "test.saibot").write_bytes(write_sketch(unsafe))
    with pytest.raises(InvalidSketch, match="stays here"):
        shell("search", "--train", "train.saibot", "--test", "test.saibot", "--target", "stay", "--key", "ward")
    assert not fake.asked
