"""A platform's searches run on the engine that its operator chose, with the same answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from saibot import spark_session
from saibot.cli.app import app
from saibot.errors import InvalidInput
from saibot.platform import Settings
from saibot.search import SearchOptions
from saibot.wire import Question
from tests.support.spark import needed_spark


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_on_spark_a_platform_answers_what_it_answers_by_threads(
    fresh: Settings, start_in_process: Any, sketches: dict[str, bytes], verbs: Any
) -> None:
    needed_spark()
    answers = []
    for engine, master in (("threads", None), ("spark", "local[2]")):
        chosen = {"data": fresh.data.parent / engine, "engine": engine, "spark_master": master, "workers": 1}
        for server in start_in_process(fresh.model_copy(update=chosen)):
            provider = server.account("provider")
            verbs.publish(provider, sketches["good"])
            requester = server.account("requester")
            id = verbs.ask(requester, sketches["train"]).json()["id"]
            assert verbs.wait(requester, id)["status"] == "done"
            told = requester.get(f"/v1/searches/{id}/result").text  # each server gives its accounts names of their own
            answers.append(json.loads(told.replace(json.dumps(provider.account), '"the provider"')))
    by_threads, on_spark = answers
    assert on_spark["ranked"] == by_threads["ranked"] and on_spark["steps"] == by_threads["steps"]
    assert by_threads["steps"]


def test_what_an_engine_cannot_do_is_done_by_threads() -> None:
    assert Question(target="y").on("spark", "spark://here:7077") == SearchOptions(engine="spark", master="spark://here:7077")
    for options in ({"strategy": "exhaustive"}, {"join": "many-to-many"}):
        assert Question(target="y", **options).on("spark") == SearchOptions(engine="threads", **options)


def test_spark_gets_one_worker_unless_more_are_asked_for_and_a_master_only_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings(engine="spark").workers == 1 and Settings(engine="spark", workers=3).workers == 3
    monkeypatch.setenv("SAIBOT_ENGINE", "spark")
    assert Settings().workers == 1
    monkeypatch.setenv("SAIBOT_ENGINE", "threads")
    told = CliRunner().invoke(app, ["serve", "--master", "spark://here:7077"])
    assert told.exit_code == 1 and "SAIBOT_SPARK_MASTER" in str(told.exception)


def test_an_engine_that_is_missing_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match="not installed") as refused:
        spark_session.open_session()
    assert "saibot[spark]" in str(refused.value.hint)
    told = CliRunner().invoke(app, ["serve", "--engine", "spark", "--port", "0"])
    assert told.exit_code == 1 and "saibot[spark]" in str(told.exception)
