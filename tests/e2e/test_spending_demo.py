"""The story of the ministry: on made-up tables of the same shape, and in the long run on the real ones."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from saibot.cli import demo as command
from saibot.cli.app import app
from saibot.client import Requester
from saibot.demo.households import COMMUNES, OFFICES, OWN, TARGET, HouseholdTables, read_households
from saibot.demo.spending import WRONG, SpendingStory, tell_spending
from saibot.demo.spending_report import conclusion, spending_html, spending_rows
from saibot.embedded import embedded
from saibot.privacy.ledger import Ledger


def made_up() -> HouseholdTables:
    """Communes differ in wealth, which farming and towns tell of, and spending follows."""
    rng = np.random.default_rng(8)
    wealth = rng.normal(0, 1, COMMUNES + 1)
    c, p = rng.integers(1, COMMUNES + 1, 9000), rng.integers(1, COMMUNES + 1, 6000)
    homes = pd.DataFrame({"commune": c, "educyr": rng.normal(7 + 2 * wealth[c], 2), "hhsize": rng.integers(1, 9, len(c))})
    homes["age"] = rng.normal(48, 14, len(c))
    for name in ("farm", "urban"):
        homes[name] = np.where(rng.normal(wealth[c], 0.7) > 0, "yes", "no")
    people = pd.DataFrame({"commune": p, TARGET: 3 + 0.5 * wealth[p] + rng.normal(0, 0.5, len(p))})
    own = {name: rng.normal(0, 1, len(p)) for name in OWN} | {"educ": rng.integers(0, 21, len(p))}
    return HouseholdTables(homes, people.assign(**own | {"insurance": rng.integers(0, 2, len(p))}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spending")


@pytest.fixture(scope="module")
def story(folder: Path) -> SpendingStory:
    wrong = dict([next(iter(WRONG.items()))])
    return tell_spending(folder, made_up(), wrong=wrong, progress=lambda stage, part: None)


def test_the_private_columns_help_where_own_averages_cannot(story):
    scores = story.scores
    assert abs(scores.own) < 0.05 and abs(scores.own_means) < 0.05  # nothing is known of a new commune
    assert scores.known_means > 0.3  # of a surveyed one it is
    assert scores.private > 0.7 * scores.same_raw > 0.2
    assert scores.all_raw >= scores.same_raw - 0.05
    assert "In communes it has not, R² goes from" in conclusion(story)


def test_a_wrong_budget_would_have_cost_most_of_it(story):
    assert story.wrong["ε = 0.1 instead"] < story.scores.private - 0.05


def test_every_office_spent_one_and_told_nothing_else(story, folder):
    for office in OFFICES:
        (account,) = Ledger(folder / "offices" / office / "ledger").accounts()
        assert account.spent_epsilon <= 1
    assert len(list((folder / "platform" / "sketches").rglob("*.saibot"))) == len(OFFICES)
    assert not any("lnhhexp" in column for column in story.local.columns)


def test_the_report_shows_every_number_and_marks_what_is_not_private(story):
    html = spending_html(story)
    assert "not private" in html and "<script" not in html
    assert all(f"{row['r2']:.3f}".replace("-", "−") in html for row in spending_rows(story))
    assert set(re.findall(r"https?://[^\s\"'<>)]+", html)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_a_second_run_costs_nothing_and_says_the_same(story, folder):
    again = tell_spending(folder, made_up(), wrong={}, progress=lambda stage, part: None)
    assert again.scores == story.scores and again.spent == story.spent


def test_the_platform_that_is_served_afterwards_has_the_ministrys_search(story, folder):
    with embedded(folder / "platform") as admin:
        ministry = Requester(admin.as_account("ministry", ["requester"]))
        assert {search.status for search in ministry.searches()} == {"done"}


def test_a_busy_port_is_told_before_the_story(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "_households", lambda *a, **k: pytest.fail("the story was told"))
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        done = CliRunner().invoke(app, ["demo", "--serve", "--port", port, "--folder", str(tmp_path)])
    assert done.exit_code == 1 and "cannot listen" in str(done.exception)


def test_a_story_that_was_told_is_served_and_not_told_again(tmp_path, monkeypatch):
    served = []
    monkeypatch.setattr(command, "_households", lambda *a, **k: pytest.fail("the story was told"))
    monkeypatch.setattr(command, "_serve", lambda folder, token, listening, quiet: served.append((folder, token)))
    (tmp_path / "served.json").write_text(json.dumps({"token": "saibot_x"}))
    done = CliRunner().invoke(app, ["demo", "--serve", "--port", "0", "--folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert served == [(tmp_path, "saibot_x")]


@pytest.mark.slow
def test_the_real_households_reach_their_figures(tmp_path):
    told = tell_spending(tmp_path, read_households(), progress=lambda stage, part: None).scores
    assert told.own == pytest.approx(0.057, abs=0.002) and told.all_raw == pytest.approx(0.333, abs=0.002)
    assert told.private > 0.5 * told.all_raw  # 0.64 to 0.85 in ten draws
