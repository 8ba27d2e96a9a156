"""The tables, histories and requests by which version 0.1 told more than it claimed. Each is as an audit first found it.

`saibot audit` searches for such pairs at random; these are the ones that were found, kept as they were.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from saibot.errors import BudgetExceeded, LedgerConflict
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, Released, ReleaseRequest, prepare, privatize
from saibot.privatize.aggregate import aggregate

ONE = Budget("1", "1e-6")
CAP = {"cap": {"epsilon": "1", "delta": "1e-6"}}
REPLACE_ONE = Neighbours.REPLACE_ONE
CANARY = "SECRET-4711"


def sums(table: Any, card: dict[str, Any], ledger: Ledger, **options: Any) -> list[np.ndarray]:
    """The exact statistics that noise is added to, in units of whole rows."""
    request = ReleaseRequest(Card.parse(card), ONE, **({"neighbours": REPLACE_ONE, "allocation": "equal"} | options))
    ready = prepare(table, request, ledger)
    exact = aggregate(ready.rows, ready.grid, order=1)
    scale = np.array([1.0] + [float(ready.grid.one)] * (exact.whole.size - 1))
    return [values / scale for values in (*exact.levels, exact.whole)]


def apart(one: Any, other: Any, card: dict[str, Any], ledger: Ledger, **options: Any) -> float:
    """By how much the largest statistic moves between two tables; one replaced row may move it by 2."""
    pair = sums(one, card, ledger, **options), sums(other, card, ledger, **options)
    return max(float(np.abs(a - b).max()) for a, b in zip(*pair, strict=True))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "home")


# ------------------------------------------------------------------------------------------------ 1 to 3: what a cell means

GRADES = {"dataset": {"name": "t"}, "features": {"grade": {"levels": ["1", "2"]}}}


@pytest.mark.parametrize("odd", [None, 1.5, "x", Decimal("1.50")])
@pytest.mark.parametrize("form", ["frame", "parquet", "csv"])
def test_1_a_missing_cell_does_not_rewrite_a_categorical_feature(
    odd: Any, form: str, ledger: Ledger, tmp_path: Path
) -> None:
    grades = [1, 2] * 100
    tables: list[Any] = [pd.DataFrame({"grade": grades}), pd.DataFrame({"grade": [odd, *grades[1:]]})]
    if form == "parquet" and odd not in (None, 1.5):
        pytest.skip("pandas itself writes no Parquet column of such a mixture")
    if form != "frame":
        for number, frame in enumerate(tables):
            tables[number] = tmp_path / f"{number}.{form}"
            frame.to_parquet(tables[number]) if form == "parquet" else frame.to_csv(tables[number], index=False)
    assert apart(*tables, GRADES, ledger) <= 2


CODES: dict[str, Any] = {
    "dataset": {"name": "t"},
    "features": {"x": {"bounds": [0, 1]}},
    "keys": {"code": {"domain": {"values": ["250.1", "250.2"], "id": "codes"}}},
}


def test_2_the_digits_of_one_decimal_do_not_respell_everybodys_key(ledger: Ledger) -> None:
    def table(first: str) -> pd.DataFrame:
        codes = [Decimal(first), *[Decimal("250.1"), Decimal("250.2")] * 50]
        return pd.DataFrame({"code": codes, "x": [1.0] * len(codes)})

    assert apart(table("250.1"), table("250.25"), CODES, ledger, key="code") <= 2


def test_3_one_persons_half_does_not_choose_other_peoples_rows(ledger: Ledger) -> None:
    card: dict[str, Any] = {
        "dataset": {"name": "t", "id": "who", "rows_per_individual": 1, "max_rows": 10_000},
        "features": {"x": {"bounds": [2, 20]}},
    }

    def table(first: float) -> pd.DataFrame:
        values = [first] + [11, 10**16] * 500  # as texts of integers the large one comes first, as texts of floats 11.0 does
        return pd.DataFrame({"who": [0, *np.repeat(np.arange(1, 501), 2)], "x": values})

    assert apart(table(5), table(5.5), card, ledger) <= 2


# ------------------------------------------------------------------------------------------------ 4 to 7: the ledger

PLAIN: dict[str, Any] = {
    "dataset": {"name": "stays"},
    "features": {"days": {"bounds": [0, 30]}, "age": {"bounds": [0, 100]}},
    "budget": {"cap": {"epsilon": "9", "delta": "1e-6"}},
}


def stays(seed: int = 0, rows: int = 400) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    return pd.DataFrame({
        "who": np.arange(rows),
        "days": draw.gamma(2.0, 3.0, rows).round(4),
        "age": draw.normal(50, 9, rows).round(4),
    })  # fmt: skip


def released(table: Any, ledger: Ledger, card: dict[str, Any] = PLAIN, **options: Any) -> Released:
    terms = {"neighbours": REPLACE_ONE, "allocation": "equal"} | options
    return privatize(table, ReleaseRequest(Card.parse(card), ONE, **terms), ledger)


def test_4_neither_replay_nor_edition_tells_whether_the_table_changed(tmp_path: Path) -> None:
    seen = []
    for history in (stays(), stays(1)):
        ledger = Ledger(tmp_path / f"{len(seen)}")
        first = released(stays(), ledger)
        again = released(history, ledger)
        second = released(history, ledger, new_version=True)
        third = released(history, ledger, new_version=True)
        seen.append((
            again.content == first.content,
            [one.sketch.header.edition for one in (first, again, second, third)],
            len({one.sketch.digest for one in (first, again, second, third)}),
        ))  # fmt: skip
    assert seen[0] == seen[1] == (True, [1, 1, 2, 3], 3)


def test_5_train_and_test_parts_have_no_caps_of_their_own(ledger: Ledger, tmp_path: Path) -> None:
    card = PLAIN | {"budget": CAP}
    released(stays(), ledger, card)
    for part in ("train", "test"):
        described = Card.parse(card).for_request(part)  # type: ignore[arg-type]
        with pytest.raises(BudgetExceeded):
            privatize(stays(2), ReleaseRequest(described, ONE, REPLACE_ONE, allocation="equal"), ledger)
    assert max(account.spent_epsilon for account in ledger.accounts()) <= 1


@pytest.mark.parametrize("disguise", ["gzip", "extra column", "blank lines", "shuffled", "parquet"])
def test_6_the_same_rows_are_known_under_another_name(disguise: str, ledger: Ledger, tmp_path: Path) -> None:
    stays().to_csv(tmp_path / "stays.csv", index=False)
    released(tmp_path / "stays.csv", ledger)
    text, other = (tmp_path / "stays.csv").read_text(), tmp_path / "other.csv"
    match disguise:
        case "gzip":
            other = tmp_path / "other.csv.gz"
            other.write_bytes(gzip.compress(text.encode()))
        case "extra column":
            stays().assign(unused=1).to_csv(other, index=False)
        case "blank lines":
            other.write_text(text.replace("\n", "\n\n"))
        case "shuffled":
            stays().sample(frac=1, random_state=1).to_csv(other, index=False)
        case "parquet":
            other = tmp_path / "other.parquet"
            stays().to_parquet(other)
    again = released(other, ledger, PLAIN | {"dataset": {"name": "another-name"}})
    assert any("account 'stays'" in note for note in again.notes)
    assert not released(stays(5), ledger, PLAIN | {"dataset": {"name": "other-people"}}).notes


def test_7_a_release_by_row_never_enters_an_account_of_individuals(ledger: Ledger) -> None:
    by_id = {"name": "stays", "id": "who", "rows_per_individual": 4, "max_rows": 1000}
    released(stays(), ledger, PLAIN | {"dataset": by_id})
    with pytest.raises(LedgerConflict, match="protects individuals"):
        released(stays(), ledger)


# ------------------------------------------------------------------------------------------------ 8 to 10: what leaves
# 8, a local requester's wire, is in tests/unit/client/platform/test_silence.py; 9, nonprivate sketches, in test_leaving.py.


def saibot(*arguments: str, home: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"SAIBOT_HOME": str(home)}
    command = [sys.executable, "-m", "saibot.cli", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)


def test_9_a_nonprivate_sketch_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    stays().to_csv(tmp_path / "stays.csv", index=False)
    card = '[dataset]\nname = "stays"\nneighbours = "replace-one"\n[features.days]\nbounds = [0, 30]\n'
    (tmp_path / "stays.toml").write_text(card)
    home = tmp_path / "home"
    made = saibot("privatize", "stays.csv", "--prepare", "paper", "--out", "s.saibot", home=home, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    sent = saibot("publish", "s.saibot", "--platform", "http://127.0.0.1:1", home=home, cwd=tmp_path)
    assert sent.returncode == 1 and "not private" in sent.stderr.lower()  # and not: nobody answers at that address


def test_10_init_does_not_write_a_row_into_the_card(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"{CANARY},17,2013-01-01\nother,18,2013-01-02\n")
    done = saibot("init", "t.csv", home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 1 and not (tmp_path / "t.toml").exists()
    assert CANARY not in done.stdout + done.stderr


def test_what_the_provider_is_told_is_not_in_the_document_that_a_command_prints(tmp_path: Path) -> None:
    card = '[dataset]\nname = "stays"\nneighbours = "replace-one"\n[features.days]\nbounds = [0, 30]\n'
    (tmp_path / "stays.toml").write_text(card)
    printed = []
    for seed in (0, 1):
        stays(seed).to_csv(tmp_path / "stays.csv", index=False)
        done = saibot("privatize", "stays.csv", "--json", home=tmp_path / "home", cwd=tmp_path)
        printed.append((done.returncode, json.loads(done.stdout) | {"repeated": None, "charged": None}))
    assert printed[0] == printed[1]
    assert "another one than this sketch was made from" in done.stderr
