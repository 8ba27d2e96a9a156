"""The local model: everybody privatises their own row, its key included, and charges their own ledger."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from saibot.errors import InvalidTable, SaibotError, UnsupportedPlan
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privacy.mechanisms import Plan
from saibot.privatize import Card, Prepared, Released, ReleaseRequest, contribute, privatize
from saibot.privatize.aggregate import ExactStatistics, aggregate
from saibot.privatize.local_model import Cell, _table, read_row
from saibot.privatize.noise import NoiseSource, OpenDPNoise
from saibot.sketch import collect, read_sketch

P_MIN = 1e-9
CARD: dict[str, Any] = {
    "dataset": {"name": "t"},
    "features": {"x": {"bounds": [0, 10]}, "y": {"bounds": [0, 10]}},
    "keys": {
        "k": {"domain": {"range": [1, 8]}},
        "wide": {"column": "k", "domain": {"range": [1, 1500]}},
        "day": {"domain": {"dates": ["2013-01-30", "2013-02-02"]}, "levels": ["month"]},
        "both": {"parts": ["k", "day"]},
    },
}
ROW: dict[str, Cell] = {"x": 3, "y": 4.5, "k": 2, "day": "2013-02-01"}


class Silent(OpenDPNoise):
    """Adds nothing and says that it did: exact numbers in a file that looks like any other."""

    def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
        return values

    laplace = gaussian


def rows(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    days = rng.choice(["2013-01-30", "2013-02-01", "2014-01-01"], n)
    return pd.DataFrame({"x": rng.uniform(-2, 12, n), "y": rng.uniform(0, 10, n), "k": rng.integers(1, 10, n), "day": days})


def asked(card: dict[str, Any] = CARD, **options: Any) -> ReleaseRequest:
    terms = {"budget": Budget("1", "1e-6"), "neighbours": Neighbours.REPLACE_ONE, "key": "k", "allocation": "equal"}
    return ReleaseRequest(Card.parse(card), **(terms | options))


def reported(
    row: Mapping[str, Cell], ledger: Ledger, noise: NoiseSource | None = None, *, card: dict[str, Any] = CARD, **options: Any
) -> Released:
    return contribute(row, asked(card, **options), ledger, noise=noise)


def everybody(table: pd.DataFrame, home: Path, noise: NoiseSource | None = None, **options: Any) -> list[Released]:
    """The reports of all individuals, each with a ledger of their own."""
    people: list[Any] = table.to_dict("records")
    return [reported(row, Ledger(home / str(i)), noise, **options) for i, row in enumerate(people)]


def scale_p(sample: np.ndarray, sigma: float) -> float:
    """Two-sided p-value of normal noise with this standard deviation."""
    law = stats.chi2(len(sample))
    total = float((sample**2).sum() / sigma**2)
    return 2 * min(law.cdf(total), law.sf(total))


# ------------------------------------------------------------------------------------------------ what a report is


def test_a_report_is_a_sketch_of_one_row_that_says_local(ledger: Ledger) -> None:
    released = reported(ROW, ledger)
    read = read_sketch(released.content)
    assert read.header.model == "local" and read.header.rows == 1 and not read.header.simulation
    for scope, order in (("key", 0), ("key", 1), ("global", 1), ("global", 2)):
        block = read.plan.block(scope, order)  # type: ignore[arg-type]
        assert block is not None and read.sigma(scope, order) == block.sigma  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{}, {"key": "day"}, {"key": "both"}, {"layout": "semiring"}, {"key": None}], ids=str)
def test_reports_add_up_to_the_exact_statistics_of_the_table(
    exact: Callable[..., ExactStatistics], tmp_path: Path, options: dict[str, Any]
) -> None:
    table = rows(12)
    whole = exact(table, CARD, **({"key": "k"} | options))
    total = collect(one.sketch for one in everybody(table, tmp_path, Silent(), **options))
    one = float(whole.grid.one)
    for level, sums in zip(total.levels, whole.levels, strict=True):
        orders = [monomial.order for monomial in whole.basis.monomials][: level.values.shape[1]]
        assert np.allclose(level.values, sums[:, : level.values.shape[1]] / np.array([one**o for o in orders]))
    for block in total.header.global_blocks:
        assert np.allclose(block.values, whole.whole[whole.basis.slice(block.order)] / one**block.order)
    assert total.header.rows == 12


@pytest.mark.statistical
def test_the_noise_of_the_sum_is_as_large_as_it_says(tmp_path: Path, full: bool) -> None:
    """Fifteen hundred empty keys: what they hold is noise and nothing else. Rows sit in the catch-all."""
    n = 100 if full else 16
    sketch = collect(one.sketch for one in everybody(rows(n).assign(k=9999), tmp_path, key="wide"))
    empty = sketch.levels[0].values[:1500]
    for column, order in ((0, 0), (1, 1), (2, 1)):
        sigma = sketch.sigma("key", order)
        assert sigma is not None
        assert scale_p(empty[:, column], sigma) > P_MIN
        for wrong in (0.7, 1.3, 1 / math.sqrt(n)):
            assert scale_p(empty[:, column], sigma * wrong) < P_MIN


@pytest.mark.parametrize(
    "options",
    [
        {"key": "k"},
        {"key": "day"},
        {"key": "k", "layout": "semiring"},
        {"key": "k", "mechanism": "fpm"},
        {"key": "k", "mechanism": "fpm-opt"},
        {},
        {"mechanism": "fpm"},
    ],
    ids=str,
)
def test_any_two_rows_are_within_the_plans_mu_their_keys_included(
    ready: Callable[..., Prepared], options: dict[str, Any]
) -> None:
    """What one individual sends protects everything about them: exact distance of reports, in units of their noise."""
    table = rows(15, seed=3)
    table.loc[0, ["x", "y", "k"]] = [10.0, 10.0, 1]
    table.loc[1, ["x", "y", "k"]] = [0.0, 0.0, 2]
    table.loc[2, ["x", "y", "k"]] = [0.0, 0.0, 1]
    checked = [ready(table[i : i + 1], CARD, model="local", **options) for i in range(len(table))]
    vectors = [in_noise_units(aggregate(one.rows, one.grid, order=2), one.plan) for one in checked]
    distances = [float(np.linalg.norm(a - b)) for a, b in combinations(vectors, 2)]
    mu = checked[0].plan.mu
    assert mu is not None and all(one.plan == checked[0].plan for one in checked)
    assert max(distances) <= mu * (1 + 1e-9)
    if options.get("mechanism", "joint") == "joint":
        assert max(distances) > 0.8 * mu  # and the bound is no idle one


def in_noise_units(statistics: ExactStatistics, plan: Plan) -> np.ndarray:
    pieces = []
    for block in plan.blocks:
        columns = statistics.basis.slice(block.order)
        noise = np.array([block.noise_of(monomial.multiplicity) for monomial in statistics.basis.monomials[columns]])
        cells = (statistics.levels[block.level] if block.scope == "key" else statistics.whole)[..., columns]
        pieces.append((cells / float(statistics.grid.one) ** block.order / noise).ravel())
    return np.concatenate(pieces)


def test_every_report_has_noise_at_every_key(tmp_path: Path) -> None:
    """A report that were exact at the keys its owner does not have would give the key away."""
    for one in everybody(rows(5), tmp_path):
        assert (one.sketch.levels[0].values != 0).mean() > 0.9
        assert all(np.any(block.values) for block in one.sketch.header.global_blocks)


# ------------------------------------------------------------------------------------------------ whose ledger pays


def test_everybody_charges_their_own_ledger_and_the_same_report_again_costs_nothing(tmp_path: Path) -> None:
    mine, yours = Ledger(tmp_path / "mine"), Ledger(tmp_path / "yours")
    first = reported(ROW, mine)
    assert yours.accounts() == []
    again = reported(ROW, mine)
    assert again.repeated and again.content == first.content
    account = mine.account("t")
    assert account is not None and len(account.entries) == 1
    assert reported(ROW, yours).content != first.content


def test_a_report_and_a_sketch_of_the_same_row_are_two_releases(ledger: Ledger) -> None:
    card = CARD | {"budget": {"cap": {"epsilon": "5", "delta": "1e-6"}}}
    request = asked(card)
    reports = [contribute(ROW, request, ledger), privatize(_table(ROW, request), request, ledger)]
    assert [one.repeated for one in reports] == [False, False]
    assert [one.sketch.header.model for one in reports] == ["local", "central"]
    assert len(ledger.account("t").entries) == 2  # type: ignore[union-attr]


def test_a_charge_stays_where_drawing_fails(ledger: Ledger) -> None:
    class Broken(OpenDPNoise):
        def gaussian(self, values: np.ndarray, scale: float, done: Callable[[int], None]) -> np.ndarray:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        reported(ROW, ledger, Broken())
    assert [entry.to_json()["state"] for entry in ledger.account("t").entries] == ["spent, nothing released"]  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------------------ refusals


def test_a_whole_table_is_never_taken_as_somebodys_row(ledger: Ledger) -> None:
    with pytest.raises(InvalidTable, match="own row") as caught:
        privatize(rows(2), asked(model="local"), ledger)
    assert "saibot contribute" in str(caught.value)
    assert ledger.accounts() == []


@pytest.mark.parametrize(
    "card, options, rule",
    [
        (CARD, {"neighbours": Neighbours.ADD_REMOVE}, "replace-one"),
        (CARD | {"dataset": {"name": "t", "id": "x", "max_rows": 9}}, {}, "one row of each"),
        (CARD, {"mechanism": "fpm-opt", "key": None, "allocation": None}, "at least two rows"),
        (CARD, {"paper_preparation": True}, "all rows together"),
        (CARD | {"component": {"of": ["x", "y"]}}, {}, "all rows together"),
        (CARD | {"features": {"x": {"bounds": {"buy": "0.1"}}}}, {}, "all rows together"),
        (CARD, {"key": "room"}, "no key 'room'"),
        (CARD, {"features": ("z",)}, "no feature 'z'"),
    ],
)
def test_what_one_individual_cannot_do_alone_is_refused(
    ledger: Ledger, card: dict[str, Any], options: dict[str, Any], rule: str
) -> None:
    with pytest.raises(SaibotError, match=rule):
        reported(ROW, ledger, card=card, **options)
    assert ledger.accounts() == []


def test_a_row_longer_than_the_bound_is_never_reported(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the norm clip broken, the local model would notice as the central one does."""
    from saibot.privatize import aggregate as module

    monkeypatch.setattr(module, "to_steps", lambda table, *args, **options: table)
    with pytest.raises(SaibotError, match="longer than the bound"):
        reported(ROW | {"x": 10, "y": 10}, ledger, bound=Decimal("0.5"))
    assert ledger.accounts() == []


def test_the_local_model_is_refused_by_the_request_itself() -> None:
    with pytest.raises(UnsupportedPlan, match="replace-one"):
        replace(asked(neighbours=Neighbours.ADD_REMOVE), model="local")


# ------------------------------------------------------------------------------------------------ somebody's cells

SECRET = "SECRET-4711"


@pytest.mark.parametrize("x", ["3", " 3.0 ", "+3e0", 3, 3.0])
@pytest.mark.parametrize("k", ["2", 2, 2.0, " 2 "])
def test_cells_mean_the_same_however_they_are_given(ledger: Ledger, x: Cell, k: Cell) -> None:
    found = reported(ROW | {"x": x, "k": k}, ledger, Silent()).sketch.levels[0].values
    assert found[1, 0] == 1 and found[1, 1] == pytest.approx(-0.4, abs=1e-4) and found[:, 0].sum() == 1


@pytest.mark.parametrize(
    "cell, scaled", [(None, 0), ("", 0), (math.nan, 0), ("true", -0.8), (False, -1), (1e300, 1), (-7, -1)]
)
def test_a_missing_cell_is_missing_and_one_beyond_its_bounds_is_clipped(ledger: Ledger, cell: Cell, scaled: float) -> None:
    found = reported(ROW | {"x": cell}, ledger, Silent()).sketch.levels[0].values
    assert found[1, 1] == pytest.approx(scaled, abs=1e-4)


def test_levels_and_missing_cells_are_read_as_the_card_says(ledger: Ledger) -> None:
    features = {"x": {"bounds": [0, 10]}, "o": {"levels": ["true", "7"]}}
    found = reported({"x": None, "o": True, "k": 1}, ledger, Silent(), card=CARD | {"features": features})
    assert np.allclose(found.sketch.levels[0].values[0], [1, 0, 1, 0])


@pytest.mark.parametrize(
    "row", [{**ROW, "x": SECRET}, {**ROW, "x": 10**400}, {**ROW, "k": f"{SECRET}\ud800"}, {"x": 1, "y": 2, SECRET: 3}]
)
def test_a_row_that_does_not_fit_is_refused_free_of_charge_and_without_a_cell(ledger: Ledger, row: dict[str, Cell]) -> None:
    with pytest.raises(InvalidTable) as caught:
        reported(row, ledger)
    assert SECRET not in str(caught.value) and caught.value.hint
    assert ledger.accounts() == []


CELLS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cells=st.fixed_dictionaries({"x": CELLS, "k": CELLS, "day": CELLS}), key=st.sampled_from(["k", "day", "both"]))
def test_any_cells_give_a_report_or_a_refusal_that_is_free(
    tmp_path_factory: pytest.TempPathFactory, cells: dict[str, Cell], key: str
) -> None:
    ledger = Ledger(tmp_path_factory.mktemp("home"))
    refusal = None
    try:
        assert reported(cells, ledger, Silent(), key=key, features=("x",)).sketch.header.rows == 1
    except InvalidTable as problem:
        refusal = problem.message
    assert refusal is None or ("column 'x' is no number" in refusal and ledger.accounts() == [])


# ------------------------------------------------------------------------------------------------ a row in a file


@pytest.mark.parametrize(
    "name, content",
    [
        ("row.csv", "x,y,k\n3,4.5,2\n"),
        ("row.csv", '\ufeff"x","y",k\r\n3,"4.5",2\r\n\r\n'),
        ("row.tsv", "x\ty\tk\n3\t4.5\t2"),
        ("row.json", '{"x": 3, "y": 4.5, "k": "2"}'),
    ],
)
def test_a_row_is_read_from_a_file(tmp_path: Path, ledger: Ledger, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    found = reported(read_row(tmp_path / name), ledger, Silent()).sketch.levels[0].values[1]
    assert found == pytest.approx([1, -0.4, -0.1], abs=1e-4)


@pytest.mark.parametrize(
    "name, content, rule",
    [
        ("row.csv", f"x,y\n1,2\n3,{SECRET}\n", "more than one row"),
        ("row.csv", f"x,{SECRET}\n", "no row"),
        ("row.csv", "", "no row"),
        ("row.csv", f"x,y\n1,2,{SECRET}\n", "does not fit"),
        ("row.csv", f"x,x\n1,{SECRET}\n", "does not fit"),
        ("row.csv", f'x,y\n1,"{SECRET}\n', "cannot be read"),
        ("row.json", json.dumps([{"x": SECRET}, {"x": 1}]), "single row"),
        ("row.json", json.dumps({"x": [SECRET]}), "single row"),
        ("row.json", f'{{"x": {SECRET}', "no JSON"),
        ("row.xlsx", SECRET, "not known"),
    ],
)
def test_a_file_that_is_not_one_row_is_refused_without_a_cell(tmp_path: Path, name: str, content: str, rule: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InvalidTable, match=rule) as caught:
        read_row(tmp_path / name)
    assert SECRET not in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for name in ("gone.csv", "gone.json"):
        with pytest.raises(InvalidTable, match="there is no"):
            read_row(tmp_path / name)
