"""A plan is read by everyone who trains: what of a search's result may go into it, and what a Flower client says."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from typer.testing import CliRunner

from saibot.cli.app import app
from saibot.client import Domains, SearchOptions, find_augmentation, local_request
from saibot.client.federating import not_public
from saibot.errors import InvalidInput
from saibot.privatize import Card

CARD = """
[dataset]
name = "sales"
neighbours = "replace-one"
[features.sales]
bounds = [0, 200]
[features.price]
bounds = [0, 100]
[keys.shop]
domain = { values = SHOPS, id = "shops" }
[keys.day]
domain = { dates = ["2013-01-01", "2013-03-31"] }
"""


@pytest.fixture
def prepare(rows, corpus, tmp_path):
    """Call `federate prepare` for a result with values of two datasets, with more options."""
    from .conftest import SHOPS

    request = local_request(rows, target="sales", features=["price"], keys=["shop", "day"], domains=Domains(corpus))
    found = find_augmentation(request, corpus, SearchOptions(engine="threads"))
    found.save(tmp_path / "found.json")
    (tmp_path / "card.toml").write_text(CARD.replace("SHOPS", json.dumps(list(SHOPS))))
    assert Card.read(tmp_path / "card.toml").dataset.name == "sales"

    def call(*options: str):
        out = tmp_path / "plan.json"
        given = ["federate", "prepare", str(tmp_path / "found.json"), "--card", str(tmp_path / "card.toml")]
        return CliRunner().invoke(app, [*given, "--out", str(out), *options]), out

    return SimpleNamespace(call=call, found=found, corpus=str(corpus.folder))


def test_a_folder_cannot_say_who_may_see_values_so_the_requester_must(prepare):
    refused, out = prepare.call("--corpus", prepare.corpus)
    assert isinstance(refused.exception, InvalidInput) and "shops-survey" in str(refused.exception)
    assert not out.exists()
    done, out = prepare.call("--corpus", prepare.corpus, "--yes")
    assert done.exit_code == 0 and out.exists(), done.output


@pytest.mark.parametrize("hidden", ["granted", "restricted", None])
def test_values_that_a_platform_does_not_show_to_everybody_go_into_no_plan(hidden, prepare, monkeypatch):
    digests = [column.digest for column in prepare.found.result.columns]
    names = [column.dataset for column in prepare.found.result.columns]
    listed = [SimpleNamespace(digest=digests[0], visibility="public")]
    listed += [SimpleNamespace(digest=digests[1], visibility=hidden)] if hidden else []
    assert not_public(prepare.found, listed) == [names[1]]
    assert not_public(prepare.found, [SimpleNamespace(digest=one, visibility="public") for one in digests]) == []

    class Opened(SimpleNamespace):
        def __enter__(self):
            return self

        def __exit__(self, *problem):
            return None

    asked = Opened(url="https://platform.test", datasets=lambda: iter(listed))
    monkeypatch.setattr("saibot.cli.federate.open_connection", lambda address, *, typed: asked)
    refused, out = prepare.call("--platform", "https://platform.test")
    assert isinstance(refused.exception, InvalidInput) and names[1] in str(refused.exception)
    assert names[0] not in str(refused.exception) and not out.exists()


# ------------------------------------------------------------------------------------------------ Flower


@pytest.fixture
def flower(monkeypatch, tmp_path):
    """The example, with stand-ins for what it takes of Flower; one trainer whose command is `command(text of a script)`."""

    class Sent:
        def __init__(self, content, reply_to):
            self.content = content

    class App:
        def train(self):
            return lambda function: function

        main = train

    parts = {
        "flwr": {},
        "flwr.app": {"ConfigRecord": dict, "RecordDict": dict, "Context": object, "Message": Sent},
        "flwr.clientapp": {"ClientApp": App},
        "flwr.serverapp": {"Grid": object, "ServerApp": App},
    }
    for name, inside in parts.items():
        module = ModuleType(name)
        module.__dict__.update(inside)
        monkeypatch.setitem(sys.modules, name, module)
    path = Path(__file__).parents[3] / "examples" / "federated" / "flower_app.py"
    spec = importlib.util.spec_from_file_location("flower_example", path)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    home = tmp_path / "home"
    trainer = {"table": "rows.csv", "card": "card.toml", "home": str(home), "accept": "d" * 64}
    (tmp_path / "trainers.json").write_text(json.dumps([trainer]))
    monkeypatch.setenv("SAIBOT_FEDERATION", str(tmp_path))

    def answer(script: str):
        (tmp_path / "command.py").write_text(script)
        monkeypatch.setenv("SAIBOT_COMMAND", f"{sys.executable} {tmp_path / 'command.py'}")
        message = SimpleNamespace(content={"document": {"text": "weights"}})
        return example.train(message, SimpleNamespace(node_config={"partition-id": 0}))

    return SimpleNamespace(answer=answer, log=home / "federated.log", folder=tmp_path)


def test_a_flower_server_hears_the_same_of_every_failure_and_the_trainer_reads_why(flower):
    heard = []
    for script in ("import sys; sys.exit('row 7 of rows.csv')", "pass", "raise ValueError('a cell')"):
        with pytest.raises(RuntimeError) as failed:
            flower.answer(script)
        heard.append((str(failed.value), failed.value.__context__, failed.value.__cause__))
    (flower.folder / "trainers.json").write_text("[]")
    with pytest.raises(RuntimeError) as failed:
        flower.answer("pass")
    heard.append((str(failed.value), failed.value.__context__, failed.value.__cause__))
    assert set(heard) == {("no contribution to this round", None, None)}
    log = flower.log.read_text()
    assert "row 7 of rows.csv" in log and "a cell" in log


def test_a_flower_client_agrees_to_the_plan_that_its_trainer_named(flower):
    script = (
        "import sys, pathlib\nat = sys.argv.index\n"
        "pathlib.Path(sys.argv[at('--out') + 1]).write_text(sys.argv[at('--accept') + 1])"
    )
    assert flower.answer(script).content["document"]["text"] == "d" * 64
