"""An option means the same from the flag to the engine, and none is dropped on the way."""

from __future__ import annotations

import json

import pytest

from saibot.errors import InvalidInput
from saibot.search import SearchOptions
from saibot.wire import InvalidOption, Question
from saibot.wire.options import Options

CHANGED = {
    "join": "many-to-many",
    "steps": 3,
    "strategy": "exhaustive",
    "rank": "potential",
    "confidence": 0.8,
    "interval": 0.5,
    "ranking_quantile": 1.0,
    "joins": False,
    "unions": False,
    "hops": True,
    "whole_datasets": True,
    "shared": True,
    "shown": 7,
    "providers": ("clinic",),
    "verified": True,
}
AT_HOME = {"gain": "known", "always_first": True, "engine": "threads", "master": "spark://here:7077"}


def test_every_option_is_either_sent_or_refused():
    assert set(CHANGED) == set(Options.model_fields)
    assert {*CHANGED, *AT_HOME} == set(SearchOptions.model_fields)


@pytest.mark.parametrize("name", CHANGED)
def test_an_option_reaches_the_search_on_a_platform(name):
    asked = SearchOptions(**{name: CHANGED[name]})
    sent = Question.of(asked, target="sales", features=["price"]).model_dump_json()
    assert Question.read(sent).options == asked != SearchOptions()
    assert json.loads(sent)["target"] == "sales" and json.loads(sent)["features"] == ["price"]


@pytest.mark.parametrize("name", AT_HOME)
def test_an_option_that_a_platform_would_not_heed_is_refused(name):
    asked = {name: AT_HOME[name]} | ({"engine": "spark"} if name == "master" else {})
    with pytest.raises(InvalidInput, match=f"does not take the option {next(iter(sorted(asked)))}"):
        Question.of(SearchOptions(**asked), target="sales")
    with pytest.raises(InvalidOption, match=name):
        Question.read(json.dumps({"target": "sales", name: AT_HOME[name]}))


@pytest.mark.parametrize(
    "together, told",
    [
        ({"strategy": "exhaustive", "joins": False}, "combinations of joins"),
        ({"strategy": "exhaustive", "always_first": True}, "best combination"),
        ({"strategy": "exhaustive", "engine": "spark"}, "step by step"),
        ({"join": "many-to-many", "engine": "spark"}, "step by step"),
        ({"whole_datasets": True, "engine": "gpu"}, "one by one"),
        ({"master": "spark://here:7077"}, "engine spark"),
    ],
)
def test_options_that_cannot_both_be_heeded_are_refused(together, told):
    with pytest.raises(InvalidOption, match=told) as refused:
        SearchOptions(**together)
    assert refused.value.field == ""


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"confidence": 1}, {"interval": 0}, {"shown": 0}, {"engine": "tpu"}, {"most_steps": 3}]
)
def test_an_option_that_cannot_be_is_refused_by_its_name(wrong):
    with pytest.raises(InvalidOption) as refused:
        SearchOptions(**wrong)
    assert [refused.value.field] == list(wrong)
    assert refused.value.message.startswith(f"{next(iter(wrong))}: ")


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"steps": 3}'])
def test_what_is_no_question_is_refused(text):
    with pytest.raises(InvalidOption):
        Question.read(text)


def test_a_platform_has_limits_that_a_search_at_home_has_not():
    assert SearchOptions(steps=60, shown=5000).shown == 5000
    with pytest.raises(InvalidOption, match="steps"):
        Question.of(SearchOptions(steps=60), target="sales")


def test_changed_options_are_checked_like_new_ones():
    assert SearchOptions(hops=True).but(steps=2) == SearchOptions(hops=True, steps=2)
    with pytest.raises(InvalidOption):
        SearchOptions().but(steps=0)
