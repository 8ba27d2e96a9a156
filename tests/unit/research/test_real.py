"""Search on folders of tables: reading them, preparing them, simulated releases, and what a selection is worth."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from research.plans import plan_for, sigma
from research.real import private_preparation as private
from research.real.keys import Domain, key
from research.real.ours import MadeUp
from research.real.prepare import component, measurements
from research.real.protocol import ask_on, join_records, lookup_records
from research.real.release import private_moments, private_values, rounded_rows
from research.real.select import REQUEST_BOUND_SQUARED, JoinSearch
from research.real.tables import Folder
from research.real.tasks import read_tasks
from research.real.world import Library, r2_with
from saibot.errors import InvalidTable
from saibot.estimate.lookup import shrink
from saibot.privacy import Budget

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
    domain = Domain.of(key("DBN"), ["01M001", "01M002", "02M001", "13K001", "75M001", "75X002"])
    assert domain.sizes == (6, 4, 3)  # districts 01, 02, 13, 75; boroughs K, M and citywide
    fine, district, borough = domain.up(np.arange(6.0))
    assert district.tolist() == [1, 2, 3, 9] and borough.tolist() == [3, 3, 9] and len(fine) == 6


def test_a_level_with_as_many_keys_as_the_one_below_says_nothing_of_its_own():
    assert Domain.of(key("DBN"), ["01M001", "01M002", "13K001"]).sizes == (3, 2)
    assert Domain.of(key("anything"), ["a", "b"]).sizes == (2,)


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
def test_a_private_component_is_near_the_column_it_is_made_of_and_costs_its_share(preparation):
    rng = np.random.default_rng(1)
    column = rng.normal(50, 10, 20_000)
    values = np.column_stack([column, column + rng.normal(size=20_000)])
    found = private.prepared_component(values, preparation, Budget("3", "1e-6"), width=0.7, rng=rng)
    assert np.abs(found).max() <= 1 and abs(np.corrcoef(found, column)[0, 1]) > 0.8
    assert 0.4 < np.mean(np.abs(found) == 1) < 0.6  # 0.7 standard deviations cut about half of the rows
    left = private.price(preparation, ONE)
    assert left.share == 1 - private.MOMENTS_SHARE
    assert left.budget.epsilon == (1 if preparation == "public" else Decimal("0.8"))


def test_bought_ranges_hold_most_rows_and_miss_with_little_epsilon():
    rng = np.random.default_rng(2)
    column = rng.gamma(3, 20, 5000)
    low, high = private.bought_range(column, 2.0, rng)
    assert 0.85 < np.mean((column >= low) & (column <= high)) < 0.97
    cheap = [private.bought_range(column, 0.001, rng) for _ in range(10)]
    assert len({bounds for bounds in cheap}) > 5


def test_a_request_is_prepared_column_by_column():
    rng = np.random.default_rng(3)
    raw = np.column_stack([rng.normal(2000, 3, 9000), rng.normal(300, 20, 9000)])
    x, y = private.prepared_request(raw, "public", ONE, widths=(1.5, 1.0), rng=rng)
    assert abs(np.corrcoef(y, raw[:, 1])[0, 1]) > 0.9 and 0.2 < np.mean(np.abs(y) == 1) < 0.45
    assert np.abs(x).max() <= 1


# ------------------------------------------------------------------------------------------------ releases


def test_simulated_values_have_the_noise_of_their_plan(world):
    runs = 40
    sums = np.repeat(world.sums(world.clipped(0.7))[None], runs, axis=0)
    one = replace(world.domain, parents=())
    rng = np.random.default_rng(4)
    found = private_values(world.counts, sums, one, (ONE, Decimal(1)), rng=rng)
    assert found.values.shape == (runs, len(world.names), len(world.domain.keys))
    # The same release, drawn by hand from the plan's sigmas, is as far from the raw means.
    rows = int(world.counts[0].sum())
    terms = {"features": 1, "budget": ONE, "allocation": "values", "sizes": one.sizes, "rows": rounded_rows(rows)}
    plan = plan_for("joint", "lookup", **terms)
    scales = [sigma(plan, "key", order) for order in (0, 1)]
    exact = world.counts[0, :-1], sums[0, 0, :-1]
    noisy = [part + rng.normal(size=(runs, len(part))) * scale for part, scale in zip(exact, scales, strict=True)]
    again = shrink(*noisy, count_sigma=scales[0], sum_sigma=scales[1], rows=np.full(runs, float(rows)), typical_spread=True)
    raw = exact[1] / np.maximum(exact[0], 1)
    errors = [np.sqrt(np.mean((values - raw) ** 2)) for values in (found.values[:, 0], again.values)]
    assert errors[0] == pytest.approx(errors[1], rel=0.15)


def test_a_private_request_keeps_its_norm_bound_and_its_totals(world):
    ask = ask_on(world)
    rng = np.random.default_rng(5)
    exact = ask.moments("paper", ONE, rng)
    assert exact.count == ask.train.sum()
    rows = np.column_stack([world.x / 4.5, np.clip(world.y, -1, 1)])
    assert (rows**2).sum(axis=1).max() <= float(REQUEST_BOUND_SQUARED)
    noisy = private_moments(exact, ONE, bound_squared=REQUEST_BOUND_SQUARED, rng=rng)
    error = (noisy.counts - exact.counts) / noisy.count_noise
    assert 0.5 < error.std() < 1.6 and noisy.count == exact.count


# ------------------------------------------------------------------------------------------------ what a selection is worth


def test_nonprivate_search_selects_the_best_and_shares_are_between_0_and_1(world):
    rng = np.random.default_rng(6)
    records = join_records(JoinSearch(world), ONE, ("nonprivate", "fpm", "apm", "tpm"), runs=3, rng=rng)
    frame = pd.DataFrame(records)
    assert frame[frame["method"] == "nonprivate"]["share"].tolist() == [1.0]
    assert frame["share"].between(0, 1).all() and frame["gain_share"].between(0, 1).all()


def test_lookup_search_with_next_to_no_noise_finds_the_best_table(world):
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(lookup_records(ask_on(world), Budget("900", "1e-6"), runs=2, rng=rng, requests=("local",)))
    usable = frame[frame["ranking"] == "usable"]
    assert usable["share"].min() > 0.95 and usable["materialised"].min() > 0.9


def test_fewer_rows_give_worse_values(world):
    rng = np.random.default_rng(8)
    thin = world.thinned(0.1, rng)
    assert thin.rows < 0.2 * world.rows and thin.counts.sum() < 0.2 * world.counts.sum()
    found = [pd.DataFrame(lookup_records(ask_on(each), ONE, runs=6, rng=rng, requests=("local",))) for each in (world, thin)]
    many, few = (frame[frame["ranking"] == "usable"]["materialised"].median() for frame in found)
    assert few < many


def test_held_out_rows_do_not_take_part_in_the_fit():
    rng = np.random.default_rng(9)
    table = rng.normal(size=(400, 2))
    z = rng.normal(size=400)
    train = np.arange(400) < 30
    table[train, 1] = z[train]  # a relation that holds in training only
    assert r2_with(table[train], z[train]) > 0.99
    assert r2_with(table, z, train=train) < 0
