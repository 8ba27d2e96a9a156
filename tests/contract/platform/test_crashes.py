"""kill -9 at every step: what was acknowledged is there, what was not is there whole or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saibot.sketch import Sketch, read_sketch, write_sketch

pytestmark = pytest.mark.fault
STRIDES = {"upload": 3, "append": 1, "new version": 4, "withdraw": 3, "first start": 15, "migration": 9}


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory, make_sketch: Callable[..., Sketch], full: bool
) -> Callable[[str], tuple[list[dict[str, Any]], list[str]]]:
    """run(scenario): what was found after each kill, and the digests of the sketches there at first, new, and replacing."""
    sketches = [make_sketch("first", seed=41), make_sketch("second", seed=42), make_sketch("first", seed=43)]
    folder = tmp_path_factory.mktemp("crashes")
    paths = []
    for number, sketch in enumerate(sketches):
        paths.append(folder / f"{number}.saibot")
        paths[-1].write_bytes(write_sketch(sketch))

    def go(scenario: str) -> tuple[list[dict[str, Any]], list[str]]:
        place = folder / scenario.replace(" ", "-")
        place.mkdir()
        program = Path(__file__).with_name("crashing.py")
        command = [
            sys.executable,
            str(program),
            str(place),
            *map(str, paths),
            scenario,
            str(1 if full else STRIDES[scenario]),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(found) >= 3 and found[-1]["told"] == "acknowledged", found
        for each in found:
            assert each["rc"] == 0, each
            assert each["killed"] or each["told"] == "acknowledged", each
            assert each["seen"]["readable"] and each["seen"]["admin"], each
        return found, [sketch.digest for sketch in sketches]

    return go


def test_an_upload_is_there_whole_or_not_at_all(run: Any) -> None:
    found, (first, second, _) = run("upload")
    for each in found:
        seen = each["seen"]
        assert seen["listed"]["first"] == [1, first]
        there = "second" in seen["listed"]
        assert there or each["told"] != "acknowledged", each
        assert seen["searched"] == sorted([first, second] if there else [first]), each
        assert seen["files"] == seen["searched"] and seen["known"][second] == there, each
    assert {"second" in each["seen"]["listed"] for each in found} == {True, False}  # kills before and after it counted


def test_shards_catch_up_after_a_kill_in_the_middle_of_an_append(run: Any) -> None:
    found, (first, second, _) = run("append")
    for each in found:
        assert each["seen"]["searched"] == sorted([first, second]), each
        assert set(each["seen"]["listed"]) == {"first", "second"}


def test_a_new_version_replaces_the_old_one_whole_or_not_at_all(run: Any) -> None:
    found, (first, _, later) = run("new version")
    for each in found:
        version, digest = each["seen"]["listed"]["first"]
        assert (version, digest) in ((1, first), (2, later)), each
        assert each["told"] != "acknowledged" or version == 2
        assert each["seen"]["searched"] == [digest], each
        assert each["seen"]["files"] == sorted([first, later] if version == 2 else [first]), each


def test_a_withdrawal_is_finished_by_the_next_start(run: Any) -> None:
    found, (first, *_) = run("withdraw")
    for each in found:
        seen = each["seen"]
        there = "first" in seen["listed"]
        assert not (there and each["told"] == "acknowledged"), each
        assert seen["searched"] == seen["files"] == ([first] if there else []), each
        assert seen["known"][first] == there, each
    assert {"first" in each["seen"]["listed"] for each in found} == {True, False}


def test_a_first_start_that_was_cut_off_is_followed_by_a_whole_one(run: Any) -> None:
    found, _ = run("first start")
    assert all(each["seen"]["listed"] == {} and each["seen"]["revision"] for each in found)


def test_a_migration_happens_whole_or_not_at_all(run: Any) -> None:
    found, (first, *_) = run("migration")
    for each in found:
        assert each["seen"]["listed"] == {"first": [1, first]}, each
        assert each["seen"]["searched"] == [first] and each["seen"]["revision"] == "9999"


def test_the_digest_of_what_is_stored_is_that_of_what_was_sent(sketches: dict[str, bytes]) -> None:
    """The reader and the writer agree, so that storing our own writing keeps every digest."""
    for content in sketches.values():
        assert write_sketch(read_sketch(content)) == content
