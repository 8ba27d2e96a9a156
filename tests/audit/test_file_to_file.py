"""Whole releases are attacked in their files; the audit as a command finds nothing, and finds broken noise."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from saibot.audit import run
from saibot.audit.noisy import attacked, audit_releases, noisy_cases
from saibot.cli.app import app
from saibot.errors import InvalidInput

CASES = {case.name: case for case in noisy_cases()}
ODD = list(CASES)[:4]


@pytest.mark.statistical
@pytest.mark.parametrize("name", ODD)
def test_an_odd_cell_shows_no_more_in_the_files_than_is_claimed(name, full):
    found = attacked(CASES[name], 200 if full else 8)
    assert not found.broken, found
    assert found.estimate > 0


@pytest.mark.statistical
@pytest.mark.timeout(900)
def test_noise_that_is_too_small_is_found_in_the_files(full):
    """With n releases of each table the estimate is known to 1/(2 sqrt(n)): 30 % too little takes 170 of them, half 60."""
    case = CASES["tight joint union of order 1, Gaussian"]
    found = attacked(case, 250, noise_factor=0.7) if full else attacked(case, 60, noise_factor=0.5)
    assert found.broken, found


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.timeout(3600)
def test_no_mechanism_shows_more_in_its_files_than_it_claims():
    assert [found for found in audit_releases(list(CASES.values()), releases=100) if found.broken] == []


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """The command with half of the noise: its folder, and what it printed."""
    folder = tmp_path_factory.mktemp("audit")
    options = ["--seed", "3", "--pairs", "20", "--releases", "100", "--file-releases", "4", "--source", "csv", "--json"]
    return folder, CliRunner().invoke(app, ["audit", *options, "--noise-factor", "0.5", "--out", str(folder)])


def test_the_command_prints_one_document_and_tells_by_its_exit_what_it_found(audited):
    folder, ran = audited
    document = json.loads(ran.stdout)
    assert ran.exit_code == 1
    assert document["verdict"] == "BROKEN" and document["seed"] == 3 and document["broken_pairs"]
    assert {"csv"} == set(document["sources"])
    assert json.loads((folder / "report.json").read_text(encoding="utf-8")) == document


def test_the_report_is_one_page_that_needs_nothing_else(audited):
    folder, _ = audited
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "A claim is disproved." in page and "Counterexamples" in page
    assert "prefers-color-scheme: dark" in page and page.count('data-width="broad" role') == 2
    assert not re.search(r"<script|https?://|@import|<link", page)


def test_an_audit_goes_on_where_it_stopped(audited, monkeypatch):
    folder, _ = audited
    for part in (
        "audit_all",
        "audit_choices",
        "audit_counts",
        "audit_found_keys",
        "audit_releases",
        "audit_training",
        "all_promises",
        "_examples",
    ):  # pairs alone are written down
        monkeypatch.setattr(run, part, lambda *arguments, **options: ())
    terms = run.AuditTerms(seed=3, pairs=40, sources=("csv",), noise_factor=0.5)
    before = (folder / "pairs.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    found = run.run_audit(terms, folder=folder)
    assert run.seed_of(folder) == 3
    assert len(found.outcomes) > len(before)
    assert [json.loads(line) for line in before] == [
        json.loads(json.dumps(outcome.to_json())) for outcome in found.outcomes[: len(before)]
    ]
    assert 0 < found.compared_now < found.compared
    with pytest.raises(InvalidInput, match="another audit"):
        run.run_audit(run.AuditTerms(seed=4, sources=("csv",), noise_factor=0.5), folder=folder)


def test_a_form_of_table_that_is_not_there_is_refused_with_the_list_of_those_that_are():
    refused = CliRunner().invoke(app, ["audit", "--source", "clay"])
    assert refused.exit_code != 0
    assert isinstance(refused.exception, InvalidInput) and "csv by pandas" in str(refused.exception.hint)
