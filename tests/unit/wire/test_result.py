"""A result is read back as it was written, also by an older or a later saibot; what is damaged is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from saibot.errors import InvalidInput
from saibot.wire import Entry, Identity, Result

GOLDEN = Path(__file__).parents[2] / "contract" / "golden" / "result.json"


@pytest.fixture
def document() -> dict[str, Any]:
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_an_old_result_file_is_read_and_written_with_all_it_said(document):
    found = Result.read(document, "result.json")
    again = json.loads(found.text())
    assert {name: again[name] for name in document} == document
    assert set(again) - set(document) == {"platform", "interval_confidence", "join"}


def test_the_oldest_entries_lack_what_came_later(document):
    for entry in (*document["ranked"], *document["steps"]):
        for name in ("features", "potential", "potential_interval", "expected", "coverage", "privacy_share", "via"):
            entry.pop(name, None)
    for name in ("unions", "rank", "dropped", "at_home"):
        del document[name]
    found = Result.read(document, "result.json")
    assert found.rank == "usable" and found.unions == 0 and found.at_home and found.ranked[0].via is None


def test_fields_of_a_later_saibot_are_passed_over(document):
    document |= {"colour": "green"}
    document["ranked"][0] |= {"shape": "round"}
    assert Result.read(document, "result.json") == Result.read(json.loads(GOLDEN.read_text()), "result.json")


def test_a_step_is_found_again_among_the_candidates_by_one_identity(document):
    found = Result.read(document, "result.json")
    first = found.ranked[0]
    assert first.identity == Identity(first.digest, first.feature, ((first.key[0].part, None),), None)
    assert [found.taken[entry.identity] for entry in found.ranked] == [
        1 + [step["digest"] for step in document["steps"]].index(entry.digest) for entry in found.ranked
    ]


@pytest.mark.parametrize(
    "place, damage, told",
    [
        (("format",), "saibot-sketch", "no result"),
        (("version",), 2, "another format version"),
        (("steps",), "none", "its steps"),
        (("ranked", 0, "interval"), [0.1], "its ranked"),
        (("base", "train_r2"), "high", "its base"),
        (("keys", 0, "domains"), [], "its keys"),
        (("columns", 0, "feature"), "", "its columns"),
        (("columns", 0, "key", 0, "part"), "nobody's", "its columns"),
        (("model", "intercept"), None, "its model"),
    ],
)
def test_what_is_damaged_is_refused_with_the_command_that_makes_it_anew(document, place, damage, told):
    inner: Any = document
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = damage
    with pytest.raises(InvalidInput, match=told) as refused:
        Result.read(document, "result.json")
    assert "saibot search --out" in (refused.value.hint or "")


def test_a_number_that_is_none_is_never_written(document):
    found = Result.read(document, "result.json")
    with pytest.raises(ValueError, match="JSON"):
        found.but(base=found.base.but(train_r2=float("nan"))).text()


def test_only_a_plain_no_lets_a_result_be_asked_for_elsewhere(document):
    for said in (True, None, "no", 0, "false"):
        assert Result.read(document | {"at_home": said}, "result.json").at_home
    assert not Result.read(document | {"at_home": False}, "result.json").at_home


def test_several_features_and_rows_have_names_for_people(document):
    entry = document["ranked"][0] | {"feature": None, "features": ["a", "b"]}
    assert Entry(**entry).label == f"{entry['dataset']}.a, b"
    assert Entry(**entry | {"kind": "union", "features": []}).label == f"rows of {entry['dataset']}"
