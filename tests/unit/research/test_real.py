"""Search on folders of tables: reading them, preparing them, simulated releases, and what a selection is worth."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from research.judging import r2_with
from research.real.components import component, measurements
from research.real.joins import JoinSearch
from research.real.keys import domain_of, key
from research.real.ours import MadeUp
from research.real.protocol import ask_on, asks_on, join_records, lookup_records
from research.real.publishing import documented_range, provider_release, request_release
from research.real.tables import Folder
from research.real.tasks import read_tasks
from research.real.world import Library
from research.searching import choose, corpus_of, dataset_name
from research.seeded import Seeded
from saibot.client.augmented import find_augmentation
from saibot.errors import InvalidTable
from saibot.estimate.lookup import lookup_values
from saibot.estimate.moments import moments_of_sketch
from saibot.privacy import Budget
from saibot.search import SearchOptions

ONE = Budget("1", "1e-6")


@pytest.fixture(scope="module")
def books():
    return Library(MadeUp(schools=6))


@pytest.fixture(scope="module")
def world(books):
    return books.world(read_tasks(books.tables.requests())[0])


# ------------------------------------------------------------------------------------------------ tables and requests


def test_a_folder_gives_its_tables_and_keeps_keys_as_text(tmp_path):
    (tmp_path / "part").mkdir()
    frame = pd.DataFrame({"DBN": ["01M015", "02M001"], "zip": ["00501", "10001"], "score": [1.5, 2.5]})
    frame.to_csv(tmp_path / "part" / "a.csv.gz", index=False)
    frame.to_parquet(tmp_path / "b.parquet")
    (tmp_path / "manifest.csv").write_text("table\na\n")
    folder = Folder(tmp_path)
    assert folder.names() == ("b.parquet", "part/a.csv.gz")
    assert folder.read("part/a.csv.gz", text=("zip",))["zip"].tolist() == ["00501", "10001"]
    with pytest.raises(InvalidTable, match=r"requests\.csv"):
        folder.requests()


def test_requests_are_one_task_per_key_with_filters_ratios_and_tables_to_leave_out():
    requests = MadeUp(schools=2).requests()
    tasks = read_tasks(requests)
    assert [task.label for task in tasks] == ["scores by district", "attendance by district", "scores by DBN"]
    scores, attendance = tasks[0], tasks[1]
    table = pd.DataFrame({"grade": ["3", "All", "9"], "present": [1, 2, 3], "enrolled": [2, 0, 4]})
    assert len(scores.kept_rows(table)) == 1
    assert attendance.target_of(table).tolist()[::2] == [0.5, 0.75] and attendance.target_of(table).isna()[1]
    assert (
        not scores.allows("made/scores.csv") and not scores.allows("made/scores_2.csv") and scores.allows("made/survey.csv")
    )


def test_a_district_that_spans_boroughs_is_citywide_so_levels_are_nested():
    domain = domain_of(key("DBN"), ["01M001", "01M002", "02M001", "13K001", "75M001", "75X002"])
    assert domain.level_values(1) == ("01", "02", "13", "75") and domain.level_values(2) == ("M", "K", "citywide")
    assert domain.parent_index(2).tolist() == [0, 0, 0, 1, 2, 2, 3]


def test_a_level_with_as_many_keys_as_the_one_below_says_nothing_of_its_own():
    assert len(domain_of(key("DBN"), ["01M001", "01M002", "13K001"]).level_names) == 1
    assert domain_of(key("anything"), ["a", "b"]).level_names == ()


# ------------------------------------------------------------------------------------------------ preparation


def test_numbers_that_name_something_are_no_measurements():
    table = pd.DataFrame({"Year": [1.0, 2, 3], "score": [1.0, 2, 4], "same": [1.0, 1, 1], "rare": [np.nan, np.nan, np.nan]})
    assert list(measurements(table)) == ["score"]


def test_the_component_follows_what_columns_have_in_common():
    rng = np.random.default_rng(0)
    common = rng.normal(size=500)
    found = component(np.column_stack([common * 5 + 300, common * 0.1, rng.normal(size=500)]))
    assert abs(np.corrcoef(found.values, common)[0, 1]) > 0.9
    assert np.abs(found.values).max() <= 1.5 and np.abs(found.clipped(0.7)).max() == 1


@pytest.mark.parametrize("preparation", ["public", "bought"])
def test_a_privately_prepared_provider_pays_for_what_it_reads_and_stays_near_its_columns(books, preparation):
    rng = np.random.default_rng(1)
    world = books.world(read_tasks(books.tables.requests())[0])
    column, place = rng.normal(50, 10, 20_000), rng.integers(0, len(world.domain), 20_000)
    columns = np.column_stack([column, column + rng.normal(size=20_000)])
    made = replace(world, columns=(columns,), places=(place,))
    sketch = provider_release(made, 0, preparation, Budget("3", "1e-6")).sketch(Seeded(rng))
    header = sketch.header
    assert header.preparation.kind == "bought" and header.simulation
    assert len(header.preparation.steps) == (1 if preparation == "public" else 3)
    (component,) = header.features
    assert component.kind == "component" and component.weights.keys() == {"c0", "c1"}
    spent = header.read_plan().request
    assert spent.budget.epsilon == 3
    assert spent.share == Decimal("0.8") if preparation == "public" else 0.7 < spent.share < 0.8
    means = np.bincount(place, column) / np.bincount(place)
    found = lookup_values(sketch, [world.domain.parent_index(1)])
    assert abs(np.corrcoef(found.values[0, :-1], means)[0, 1]) > 0.5


def test_a_table_with_a_single_column_has_no_component(world):
    made = replace(world, columns=tuple(columns[:, :1] for columns in world.columns))
    enough = Budget(str(2500 // len(world.columns[0]) + 1), "1e-6")
    sketch = provider_release(made, 0, "bought", enough).sketch(Seeded(2))
    assert [feature.kind for feature in sketch.header.features] == ["numeric"]
    low, high = sketch.header.features[0].lower, sketch.header.features[0].upper
    assert 0.3 < np.mean((world.columns[0][:, 0] > low) & (world.columns[0][:, 0] < high)) < 0.85  # half of the rows


def test_prepared_as_in_the_paper_a_sketch_says_that_it_is_not_private(world):
    assert provider_release(world, 0, "paper", ONE).sketch(Seeded(3)).header.preparation.kind == "nonprivate"
    assert (
        request_release(world, ask_on(world).train, "paper", ONE).sketch(Seeded(3)).header.preparation.kind == "nonprivate"
    )


def test_ranges_of_a_data_dictionary_have_one_digit_of_their_width():
    assert documented_range(np.array([312.0, 688.0, np.nan])) == (300, 700)
    assert documented_range(np.array([2.0, 2.0])) == (1, 3)


# ------------------------------------------------------------------------------------------------ releases and search


@pytest.mark.parametrize("preparation", ["paper", "public", "bought"])
def test_a_private_request_keeps_its_totals_and_spends_nothing_on_coarser_levels(world, preparation):
    ask = ask_on(world)
    sketch = request_release(world, ask.train, preparation, ONE).sketch(Seeded(5))
    assert len(sketch.levels) == 1 and sketch.features == ("x", "y")
    noisy = moments_of_sketch(sketch)
    assert noisy.count == ask.train.sum()
    exact = np.bincount(world.place[ask.train], minlength=len(noisy.counts))
    error = (noisy.counts - exact) / noisy.count_noise
    assert 0.5 < error.std() < 1.6


def test_a_search_gives_the_table_it_takes_and_the_values_that_augment_would_join(world):
    ask, noise = ask_on(world), Seeded(6)
    sketches = [provider_release(world, i, "paper", ONE).sketch(noise) for i in range(len(world.names))]
    with corpus_of(world.domain, sketches) as corpus:
        options = SearchOptions(steps=1, always_first=True, unions=False)
        found = find_augmentation(ask.local, corpus, options)
        choice = choose(ask.local, corpus, "usable")
        table = pd.DataFrame({world.domain.id: np.array(world.domain.values, dtype=object)[world.place]})
        augmented = found.augment(table)[found.columns[0]].to_numpy()
        some = choose(ask.local, corpus, "usable", among=[n for n in range(len(sketches)) if n != choice.number][:3])
    assert dataset_name(choice.number) == found.result.ranked[0].dataset
    np.testing.assert_allclose(choice.values[world.place], augmented)
    assert some.number != choice.number and some.number < 4


# ------------------------------------------------------------------------------------------------ what a selection is worth


def test_nonprivate_search_selects_the_best_and_shares_are_between_0_and_1(world):
    rng = np.random.default_rng(6)
    records = join_records(JoinSearch(world), ONE, ("nonprivate", "fpm", "apm", "tpm"), runs=3, rng=rng)
    frame = pd.DataFrame(records)
    assert frame[frame["method"] == "nonprivate"]["share"].tolist() == [1.0]
    assert frame["share"].between(0, 1).all() and frame["gain_share"].between(0, 1).all()


def test_lookup_search_with_next_to_no_noise_finds_the_best_table(world):
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(lookup_records(asks_on(world), Budget("900", "1e-6"), runs=2, rng=rng, requests=("local",)))
    usable = frame[frame["ranking"] == "usable"]
    assert usable["share"].min() > 0.95 and usable["materialised"].min() > 0.9


def test_fewer_rows_give_worse_values(world):
    rng = np.random.default_rng(8)
    thin = world.thinned(0.1, rng)
    assert thin.rows < 0.2 * world.rows and thin.counts.sum() < 0.2 * world.counts.sum()
    found = [
        pd.DataFrame(lookup_records(asks_on(each), ONE, runs=6, rng=rng, requests=("local",))) for each in (world, thin)
    ]
    many, few = (frame[frame["ranking"] == "usable"]["materialised"].median() for frame in found)
    assert few < many


def test_a_split_by_keys_keeps_every_key_on_one_side(world):
    ask = ask_on(world, split="keys")
    trained, held_out = (set(world.place[mask].tolist()) for mask in (ask.train, ~ask.train))
    assert not trained & held_out and 0.1 < len(held_out) / len(world.domain) < 0.5
    assert 0 < ask.ceiling < 1


def test_what_tables_have_in_common_gives_better_values_for_keys_that_training_never_saw(world):
    rng = np.random.default_rng(10)
    asks = asks_on(world, ("rows", "keys"))
    found = [pd.DataFrame(lookup_records(asks, ONE, runs=3, rng=rng, learned=learned)) for learned in (False, True)]
    assert all(set(frame["split"]) == set(asks) and frame["share"].between(0, 1).all() for frame in found)
    alone, together = (frame[frame["split"] == "keys"]["materialised"].mean() for frame in found)
    assert together > alone


def test_held_out_rows_do_not_take_part_in_the_fit():
    rng = np.random.default_rng(9)
    table = rng.normal(size=(400, 2))
    z = rng.normal(size=400)
    train = np.arange(400) < 30
    table[train, 1] = z[train]  # a relation that holds in training only
    assert r2_with(table[train], z[train]) > 0.99
    assert r2_with(table, z, train=train) < 0


def test_tables_of_many_rows_are_those_that_stay(world):
    sizes = [len(place) for place in world.places]
    some = world.with_rows(int(np.median(sizes)) + 1)
    assert 0 < len(some.names) < len(world.names) and min(map(len, some.places)) > np.median(sizes)
    assert len(some.names) == len(some.places) == len(some.features) == len(some.columns)
