"""The requester's commands as a person types them: real flights, real noise at epsilon 1, real processes.

Two airlines publish their delays by day; JetBlue, which keeps its rows at home, finds that they explain its own.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from saibot.demo.flights import write_airline
from saibot.search import Corpus
from tests.support.shell import run

REQUEST = (
    "--train",
    "b6.train.csv",
    "--test",
    "b6.test.csv",
    "--target",
    "arr_delay",
    "--key",
    "day",
    "--feature",
    "distance",
)


def refused(done: subprocess.CompletedProcess[str], said: str) -> None:
    """Exit 1, one or two lines, and they say this."""
    assert done.returncode == 1
    assert said in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of two airlines, packed beside a broken sketch, and JetBlue's rows in two parts."""
    made = tmp_path_factory.mktemp("flights")
    for code in ("ua", "dl"):
        write_airline(made, code)
        done = run("privatize", f"{code}.parquet", "--key", "day", "--epsilon", "1", "--out", f"{code}.saibot", cwd=made)
        assert done.returncode == 0, done.stderr
    (made / "cut.saibot").write_bytes((made / "ua.saibot").read_bytes()[:-3000])
    own, _ = write_airline(made, "b6")
    flights = pd.read_parquet(own)
    test = np.random.default_rng(0).random(len(flights)) < 0.3
    flights[~test].to_csv(made / "b6.train.csv", index=False)
    flights[test].to_csv(made / "b6.test.csv", index=False)
    packed = run("pack", "corpus", "ua.saibot", "cut.saibot", "dl.saibot", cwd=made)
    assert packed.returncode == 1, packed.stderr  # something was refused
    assert "packed ua.saibot" in packed.stdout and "packed dl.saibot" in packed.stdout
    assert "cut.saibot" in packed.stdout and "damaged" in packed.stdout  # the good ones are packed all the same
    return made


def test_a_search_without_a_key_names_the_columns_that_could_be_one(folder):
    asked = ("search", "--train", "b6.train.csv", "--target", "arr_delay", "--corpus", "corpus")
    done = run(*asked, cwd=folder)
    assert done.returncode == 1 and "no key was named" in done.stderr
    assert "--key" in done.stderr and "lists 100 % of its rows" in done.stderr
    assert run(*asked, "--no-joins", cwd=folder).returncode == 0
    fetched = run("search", "--train", "b6.train.csv", "--target", "arr_delay", "--local", cwd=folder)
    assert fetched.returncode == 1 and "saibot domains list" in fetched.stderr


def test_a_requester_finds_what_other_airlines_know_and_joins_it_to_its_rows(folder):
    kept = ("--out", "result.json", "--plot", "found.png", "--report", "found.html")
    done = run("search", *REQUEST, "--corpus", "corpus", *kept, cwd=folder)
    assert done.returncode == 0, done.stderr
    for expected in (
        "local request",
        "covers 100 % of the rows",
        "held out",
        "stopped:",
        "next:",
        "ua-flights-2013.arr_delay",
    ):
        assert expected in done.stdout
    assert (folder / "found.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "found.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "<script" not in page and "ua-flights-2013" in page
    result = json.loads((folder / "result.json").read_text())
    assert result["steps"][-1]["test_r2"] > result["base"]["test_r2"] + 0.05
    joined = run("augment", "result.json", "b6.test.csv", "--corpus", "corpus", "--out", "wide.csv", cwd=folder)
    assert joined.returncode == 0, joined.stderr
    with (folder / "b6.test.csv").open() as before, (folder / "wide.csv").open() as after:
        old, new = list(csv.reader(before)), list(csv.reader(after))
    assert new[0] == [*old[0], *(column["name"] for column in result["columns"])]
    assert [row[: len(old[0])] for row in new] == old
    wide = pd.read_csv(folder / "wide.csv")
    first = result["columns"][0]["name"]
    assert wide[first].notna().all() and wide.groupby("day")[first].nunique().max() == 1
    assert abs(wide[first].mean() - result["columns"][0]["mean"]) < 10


def test_a_private_request_is_made_of_sketches(folder):
    """With the distance as the only own feature: beside the departure delay a gain would be smaller than the noise in R2."""
    for part in ("train", "test"):
        chosen = ("--part", part, "--key", "day", "--feature", "arr_delay", "--feature", "distance=0:5000")
        made = run("privatize", f"b6.{part}.csv", *chosen, "--out", f"{part}.saibot", cwd=folder)
        assert made.returncode == 0, made.stderr
        assert f"b6-flights-2013-{part}" in made.stdout  # a dataset of its own
    wrong = run("privatize", "b6.test.csv", "--part", "half", "--key", "day", cwd=folder)
    refused(wrong, "--part is train or test")
    arguments = ("--train", "train.saibot", "--test", "test.saibot", "--corpus", "corpus", "--json")
    done = run("search", *arguments, "--target", "arr_delay", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(found["base"], found["steps"][-1]["test_r2"] if found["steps"] else None)
    assert found["private"] and found["steps"] and found["steps"][-1]["test_r2"] > found["base"]["test_r2"] + 0.03


def test_candidates_can_be_whole_datasets_ranked_by_what_their_raw_tables_would_give(folder):
    done = run("search", *REQUEST, "--corpus", "corpus", "--rank", "potential", "--whole-datasets", cwd=folder)
    assert done.returncode == 0, done.stderr
    for expected in ("2 joins and 0 unions to choose from, of 2 sketches", "potential gain", "(arr_delay, dep_delay)"):
        assert expected in done.stdout
    wrong = run("search", *REQUEST, "--corpus", "corpus", "--rank", "best", cwd=folder)
    refused(wrong, "usable, potential or expected gain")


def test_candidates_can_be_ranked_by_the_best_guess_at_their_raw_tables(folder):
    done = run("search", *REQUEST, "--corpus", "corpus", "--rank", "expected", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "expected gain" in done.stdout and "the most promising first" in done.stdout
    found = json.loads(run("search", *REQUEST, "--corpus", "corpus", "--rank", "expected", "--json", cwd=folder).stdout)
    assert found["rank"] == "expected" and all(0 <= entry["expected"] <= 1 for entry in found["ranked"])


def test_a_provider_sees_beforehand_what_a_release_would_be_worth(tmp_path):
    done = run("preview", "--rows", 58665, "--keys", "365,12", "--features", 2, "--epsilon", 1, "--json", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    found = json.loads(done.stdout)
    assert 0.5 < found["reliability"]["moderate"] < found["reliability"]["strong"] < 1 and found["advice"]
    refused(run("preview", "--rows", 10, "--keys", "many", cwd=tmp_path), "--keys is a list of whole numbers")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--target", "profit", "--key", "day", "--corpus", "corpus"), "no column 'profit'"),
        (("--target", "arr_delay", "--key", "dest", "--corpus", "corpus"), "column 'dest' are in no key domain"),
        (("--target", "arr_delay", "--key", "day", "--corpus", "empty"), "the corpus empty is empty"),
    ],
)
def test_bad_requests_get_a_clear_line(folder, arguments, said):
    if not (folder / "empty").exists():
        Corpus.create(folder / "empty")
    done = run("search", "--train", "b6.train.csv", *arguments, cwd=folder)
    refused(done, said)
    assert "JFK" not in done.stderr  # an airport that is in every table


def test_a_result_needs_the_corpus_it_came_from(folder):
    shutil.copytree(folder / "corpus", folder / "other")
    done = run("search", *REQUEST, "--corpus", "other", "--single", "--out", "single.json", "--json", cwd=folder)
    assert done.returncode == 0 and done.stderr == ""
    result = json.loads(done.stdout)  # one document and nothing else
    assert result == json.loads((folder / "single.json").read_text())
    assert len(result["steps"]) == 1 and {found["feature"] for found in result["ranked"]} == {"arr_delay", "dep_delay"}
    Corpus(folder / "other").remove(result["steps"][0]["digest"])
    lost = run("augment", "single.json", "b6.test.csv", "--corpus", "other", "--out", "lost.csv", cwd=folder)
    refused(lost, "does not hold the sketch")
    assert not (folder / "lost.csv").exists()


def test_a_result_is_explored_with_rows_at_another_budget_and_beside_another_one(folder):
    for name, own in (("far", "distance"), ("late", "dep_delay")):
        asked = ("search", *REQUEST[:-1], own, "--corpus", "corpus", "--steps", "1", "--out", f"{name}.json")
        done = run(*asked, cwd=folder)
        assert done.returncode == 0, done.stderr
    with_rows = ("report", "far.json", "--table", "b6.test.csv", "--corpus", "corpus")
    done = run(*with_rows, "--epsilon", "10", cwd=folder)
    assert done.returncode == 0, done.stderr
    for expected in ("Nine rows of ten are within", "left unexplained by day", "what if ε were 10?", "Signal kept at ε 10"):
        assert expected in done.stdout
    written = run(*with_rows, "--out", "explored.html", cwd=folder)
    assert written.returncode == 0 and "wrote explored.html" in written.stdout
    page = (folder / "explored.html").read_text(encoding="utf-8")
    assert "<script" not in page and "Actual against predicted" in page and page.count("<svg") >= 6
    told = json.loads(run(*with_rows, "--json", cwd=folder).stdout)
    assert told["fit"]["rows"] == len(pd.read_csv(folder / "b6.test.csv").dropna(subset=["arr_delay"]))
    assert told["fit"]["after"]["r2"] == pytest.approx(told["result"]["steps"][0]["test_r2"], abs=0.01)
    without = run("report", "far.json", "--out", "plain.html", cwd=folder)
    assert without.returncode == 0 and "It takes rows" in (folder / "plain.html").read_text(encoding="utf-8")
    refused(run("report", "far.json", "--epsilon", "50", cwd=folder), "--epsilon lies between 0.1 and 10 here, not 50")
    refused(run("report", "far.json", "--table", "b6.test.csv", cwd=folder), "are in the corpus that was searched")

    both = run("compare", "far.json", "late.json", cwd=folder)
    assert both.returncode == 0, both.stderr
    assert "late explains arr_delay better" in both.stdout and "where they differ" in both.stdout
    document = json.loads(run("compare", "far.json", "late.json", "--json", cwd=folder).stdout)
    assert {one["what"] for one in document["differences"]} >= {"Own features", "R² with own features"}
    for name, begins in (("both.html", b"<!doctype"), ("both.csv", b"\xef\xbb\xbfcandidate"), ("both.png", b"\x89PNG")):
        assert run("compare", "far.json", "late.json", "--out", name, cwd=folder).returncode == 0
        assert (folder / name).read_bytes().startswith(begins)
    refused(run("compare", "far.json", "b6.test.csv", cwd=folder), "is no result of a search")
