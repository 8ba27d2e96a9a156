"""Keys that need no list, from a card through a sketch to a search: what ships, months, and numbers with a name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.client import Augmented, Corpus, Domains, SearchOptions, find_augmentation, local_request, private_request
from saibot.domains import KeyDomain, KnownDomains, vocabulary
from saibot.errors import InvalidInput
from saibot.privatize import Card
from saibot.sketch import Sketch, read_sketch, write_sketch

Make = Callable[..., Sketch]
STATES = vocabulary("us-state-fips").values
RICHES = dict(zip(STATES, np.random.default_rng(5).permutation(np.linspace(5, 95, len(STATES))), strict=True))
COUNTIES = vocabulary("us-county-fips").values[::20]
QUESTION = "these keys are bare numbers, 1 to 15: are they the same thing in both tables?"


def card(name: str, feature: str, **keys: Any) -> dict[str, Any]:
    return {
        "dataset": {"name": name, "neighbours": "replace-one"},
        "features": {feature: {"bounds": [0, 100]}},
        "keys": {key: facts if "domain" in facts else {"domain": facts} for key, facts in keys.items()},
    }  # fmt: skip


def table(column: str, feature: str, level: dict[str, float], *, each: int, noise: float) -> pd.DataFrame:
    keys = np.repeat(list(level), each)
    values = np.repeat(list(level.values()), each) + np.random.default_rng(each).normal(0, noise, len(keys))
    return pd.DataFrame({column: keys, feature: np.clip(values, 0, 100)})


def corpus_of(folder: Path, *sketches: Sketch) -> Corpus:
    corpus = Corpus.create(folder / "corpus")
    assert corpus.add([read_sketch(write_sketch(sketch)) for sketch in sketches]) == []
    return corpus


def search(request: Any, corpus: Corpus) -> Augmented:
    return find_augmentation(request, corpus, SearchOptions(engine="threads"))


@pytest.fixture
def county_rows() -> pd.DataFrame:
    return table("county", "cost", {county: RICHES[county[:2]] for county in COUNTIES}, each=8, noise=5)


@pytest.fixture
def states(sketch_of: Make, tmp_path: Path) -> Corpus:
    """A provider by state, who has the vocabulary, in a corpus that has not heard of counties."""
    frame = table("state", "score", RICHES, each=40, noise=2)
    return corpus_of(tmp_path, sketch_of(frame, card("survey", "score", state="us-state-fips"), "state"))


def test_a_table_by_county_joins_a_provider_by_state_without_any_card(county_rows: pd.DataFrame, states: Corpus) -> None:
    county_rows["county"] = county_rows.county.str.lstrip("0")  # as a spreadsheet leaves it
    found = search(local_request(county_rows, target="cost", keys=["county"], domains=Domains(states)), states)
    (step,) = found.result.steps
    assert (step.key[0].part, step.key[0].level) == ("county", "state") and step.coverage == 1
    assert any("us-county-fips (3,235 keys) covers 100 % of the rows" in note for note in found.result.notes)
    values = found.augment(county_rows)["survey.score"]
    true = county_rows.county.map(lambda county: RICHES[county.zfill(5)[:2]])
    assert np.corrcoef(values, true)[0, 1] > 0.99


def test_a_sketch_by_county_joins_a_provider_by_state(sketch_of: Make, county_rows: pd.DataFrame, states: Corpus) -> None:
    train = sketch_of(county_rows, card("mine", "cost", county="us-county-fips"), "county")
    assert train.header.key is not None
    assert KnownDomains.of().find(train.header.key.parts[0]) == vocabulary("us-county-fips")
    (step,) = search(private_request(train, target="cost"), states).result.steps
    assert (step.key[0].part, step.key[0].level) == ("county", "state")


def test_a_provider_by_county_releases_the_state_level_and_a_request_by_state_hears_that_it_is_too_coarse(
    sketch_of: Make, county_rows: pd.DataFrame, tmp_path: Path
) -> None:
    facts = card("survey", "cost", county={"domain": "us-county-fips", "levels": ["state"]})
    sketch = sketch_of(county_rows, facts, "county")
    assert sketch.header.key is not None and sketch.header.key.levels == ("state",)
    corpus = corpus_of(tmp_path, sketch)
    asking = table("state", "price", RICHES, each=20, noise=5)
    with pytest.raises(InvalidInput, match="coarser than every key"):
        local_request(asking, target="price", keys=["state"], domains=Domains(corpus))


def test_a_column_of_times_serves_for_months_and_days_join_it(sketch_of: Make, tmp_path: Path) -> None:
    days = [str(day.date()) for day in pd.date_range("2013-01-01", "2013-12-31")]
    level = {day: 10.0 + 7 * int(day[5:7]) for day in days}
    theirs = table("when", "score", level, each=6, noise=2)
    theirs["when"] = pd.to_datetime(theirs.when) + pd.to_timedelta(np.arange(len(theirs)) % 24, unit="h")
    keys = {"month": {"column": "when", "domain": "months:2013-01:2013-12"}}
    sketch = sketch_of(theirs, card("weather", "score", **keys), "month")
    assert sketch.levels[0].values[-1, 0] == pytest.approx(0, abs=1) and len(sketch.levels[0].values) == 13  # none outside
    corpus = corpus_of(tmp_path, sketch)
    mine = table("day", "cost", level, each=4, noise=5)
    for domain in (None, "dates:2013-01-01:2013-12-31"):
        found = search(local_request(mine, target="cost", keys={"day": domain}, domains=Domains(corpus)), corpus)
        (step,) = found.result.steps
        assert step.coverage == 1 and np.corrcoef(found.augment(mine)["weather.score"], mine.day.map(level))[0, 1] > 0.99


# ------------------------------------------------------------------------------------------------ numbers

NUMBERS = [str(number) for number in range(1, 16)]
LEVEL = dict(zip(NUMBERS, np.random.default_rng(2).permutation(np.linspace(5, 95, 15)), strict=True))


@pytest.fixture
def numbered(sketch_of: Make, tmp_path: Path) -> Corpus:
    """Departments and communes from 1 to 15, and what has no name."""
    sketches = []
    for name in ("department", "commune", None):
        frame = table("k", "score", LEVEL, each=40, noise=2)
        domain = {"range": [1, 15]} | ({"of": name} if name else {})
        sketches.append(sketch_of(frame, card(f"by-{name}", "score", k=domain), "k"))
    return corpus_of(tmp_path, *sketches)


def found_names(found: Augmented) -> dict[str, str]:
    return {one.dataset: one.note for one in (*found.result.steps, *found.result.ranked)}


@pytest.mark.parametrize("way", ["table", "sketch"])
def test_departments_never_join_communes_and_bare_numbers_only_with_a_question(
    way: str, sketch_of: Make, numbered: Corpus
) -> None:
    mine, facts = (
        table("place", "cost", LEVEL, each=20, noise=5),
        card("m", "cost", place={"domain": "range:department:1:15"}),
    )
    if way == "table":
        request = local_request(mine, target="cost", keys=["place"], card=Card.parse(facts), domains=Domains(numbered))
    else:
        request = private_request(sketch_of(mine, facts, "place"), target="cost")
    found = search(request, numbered)
    notes = found_names(found)
    assert set(notes) == {"by-department", "by-None"}
    assert QUESTION in notes["by-None"] and QUESTION not in notes["by-department"]
    assert any("its keys are commune 1 to 15, not " in one.reason for one in found.result.dropped)


def test_numbers_without_a_name_join_all_with_a_question(sketch_of: Make, numbered: Corpus) -> None:
    mine = table("place", "cost", LEVEL, each=20, noise=5)
    train = sketch_of(mine, card("m", "cost", place={"range": [1, 15]}), "place")
    notes = found_names(search(private_request(train, target="cost"), numbered))
    assert len(notes) == 3 and all(QUESTION in note for note in notes.values())


@pytest.mark.parametrize("first", ["wards", "desks"])
def test_lists_of_numbers_under_two_names_are_asked_about_whichever_came_first(
    first: str, sketch_of: Make, tmp_path: Path
) -> None:
    names = sorted(["wards", "desks"], key=lambda name: name != first)
    frame = table("k", "score", LEVEL, each=40, noise=2)
    listed = [sketch_of(frame, card(f"by-{name}", "score", k={"values": NUMBERS, "id": name}), "k") for name in names]
    mine = table("place", "cost", LEVEL, each=20, noise=5)
    train = sketch_of(mine, card("m", "cost", place={"values": NUMBERS, "id": "wards"}), "place")
    notes = found_names(search(private_request(train, target="cost"), corpus_of(tmp_path, *listed)))
    assert QUESTION in notes["by-desks"]


def test_hours_that_both_name_are_not_asked_about(sketch_of: Make, tmp_path: Path) -> None:
    level = {str(hour): 4.0 * hour for hour in range(24)}
    theirs = sketch_of(table("hour", "score", level, each=40, noise=2), card("t", "score", hour="hour-of-day"), "hour")
    mine = sketch_of(table("hour", "cost", level, each=40, noise=2), card("m", "cost", hour="hour-of-day"), "hour")
    corpus = corpus_of(tmp_path, theirs)
    assert "bare numbers" not in found_names(search(private_request(mine, target="cost"), corpus))["t"]
    bare = sketch_of(table("hour", "cost", level, each=40, noise=2), card("n", "cost", hour={"range": [0, 23]}), "hour")
    assert "bare numbers, 0 to 23" in found_names(search(private_request(bare, target="cost"), corpus))["t"]


def test_a_column_is_asked_about_unless_it_is_called_like_the_numbers(numbered: Corpus) -> None:
    mine = table("place", "cost", LEVEL, each=20, noise=5)
    asked = local_request(mine, target="cost", keys=["place"], domains=Domains(numbered))
    assert sum(QUESTION in note for note in asked.terms.notes) == 3
    named = local_request(
        mine.rename(columns={"place": "department"}), target="cost", keys=["department"], domains=Domains(numbered)
    )
    told = [note for note in named.terms.notes if note.startswith("key department")]
    assert [note for note in told if "range:department:1:15" in note and QUESTION not in note]
    assert not [note for note in told if "commune" in note]


def test_a_result_with_a_named_range_is_read_again(numbered: Corpus, tmp_path: Path) -> None:
    mine = table("department", "cost", LEVEL, each=20, noise=5)
    found = search(local_request(mine, target="cost", keys=["department"], domains=Domains(numbered)), numbered)
    found.save(tmp_path / "result.json")
    again = Augmented.load(tmp_path / "result.json", numbered)
    assert again.augment(mine).equals(found.augment(mine))


def test_the_domain_of_a_named_range_is_spelled_out_by_its_id(sketch_of: Make) -> None:
    mine = table("k", "cost", LEVEL, each=5, noise=1)
    sketch = sketch_of(mine, card("m", "cost", k={"range": [1, 15], "of": "department"}), "k")
    assert sketch.header.key is not None and sketch.header.key.parts[0].domain == "range:department:1:15"
    assert KnownDomains.of().find(sketch.header.key.parts[0]) == KeyDomain.of_range(1, 15, of="department")
