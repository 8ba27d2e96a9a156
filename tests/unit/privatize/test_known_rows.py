"""Rows that were seen before are recognised, whatever they are called and however they are written; others are not."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from saibot.errors import InvalidInput
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privacy.samples import KEPT, Known, Sample, looks_known, overlap
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.privatize.doubts import Doubt
from saibot.privatize.known_rows import samples_of
from saibot.privatize.read import open_table
from saibot.privatize.split import split_frame, split_table

HALF = Decimal("0.5")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "home")


def people(rows: int = 3000, seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    return pd.DataFrame({
        "who": [f"p{seed}-{i}" for i in range(rows)],
        "income": draw.lognormal(10, 1, rows).round(2),
        "children": draw.integers(0, 4, rows),
        "town": draw.choice(["Ulm", "Bonn", "Kiel"], rows),
    })  # fmt: skip


def samples(table: Any, ledger: Ledger, *, id: str | None = None, **options: Any) -> list[Sample]:
    columns = ["income", "children", "town", *([id] if id else [])]
    source = open_table(table, columns=columns, **options)
    rows = int(source.fetch(source.table.aggregate(n=source.table.count())).column("n")[0].as_py())
    return samples_of(source, ledger, rows=rows, numbers=["income", "children"], others=["town"], id=id)


def known(found: list[Sample]) -> list[Known]:
    return [Known("earlier", None, sample) for sample in found]


FORMS: dict[str, Any] = {
    "frame": lambda frame, folder: frame,
    "polars": lambda frame, folder: pl.from_pandas(frame),
    "arrow": lambda frame, folder: pa.Table.from_pandas(frame),
    "floats": lambda frame, folder: frame.astype({"children": float}),
    "objects": lambda frame, folder: frame.astype({"children": object, "income": object}),
    "csv": lambda frame, folder: (frame.to_csv(folder / "t.csv", index=False), folder / "t.csv")[1],
    "parquet": lambda frame, folder: (frame.to_parquet(folder / "t.parquet"), folder / "t.parquet")[1],
    "database": lambda frame, folder: ibis.duckdb.connect().create_table("t", frame),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_sample_is_the_same_from_every_form_of_a_table(form: str, ledger: Ledger, tmp_path: Path) -> None:
    plain = samples(people(), ledger)
    shuffled = people().sample(frac=1, random_state=3).assign(unused=1)
    other = samples(FORMS[form](shuffled, tmp_path), ledger)
    assert [(s.kind, s.name) for s in plain] == [("column", "income"), ("row", "")]
    for one, same in zip(plain, other, strict=True):
        assert (one.hashes == same.hashes).all() and one.reach == same.reach


def test_the_polars_engine_gives_the_same_sample(ledger: Ledger, tmp_path: Path) -> None:
    people().to_csv(tmp_path / "t.csv", index=False)
    one, other = (samples(tmp_path / "t.csv", ledger, backend=backend) for backend in ("duckdb", "polars"))
    assert all((a.hashes == b.hashes).all() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("share, seen", [(1.0, True), (0.5, True), (0.0, False)])
def test_tables_that_share_enough_rows_look_alike(share: float, seen: bool, ledger: Ledger) -> None:
    old = people()
    count = int(share * len(old))
    new = pd.concat([old.iloc[:count], people(len(old) - count, seed=1)])
    assert bool(looks_known(samples(new, ledger), known(samples(old, ledger)))) is seen


def test_a_small_part_of_a_large_table_is_recognised(ledger: Ledger) -> None:
    large = people(60_000)
    found = samples(large, ledger)
    assert all(len(sample.hashes) <= KEPT for sample in found)
    assert looks_known(samples(large.iloc[:4000], ledger), known(found))


def test_what_many_rows_share_gives_nobody_away(ledger: Ledger) -> None:
    """Towns and numbers of children are alike everywhere; only what tells rows apart is evidence."""
    kinds = {(sample.kind, sample.name) for sample in samples(people(), ledger)}
    assert ("column", "children") not in kinds
    few = people(12)
    assert not looks_known(samples(few, ledger), known(samples(few, ledger)))  # too few to tell


def test_individuals_are_recognised_by_their_ids(ledger: Ledger) -> None:
    one = samples(people(), ledger, id="who")
    other = samples(people().assign(income=range(3000), children=1), ledger, id="who")
    assert [sample.kind for _, sample in looks_known(other, known(one))] == ["individual"]


def test_samples_of_another_machine_or_version_tell_nothing(ledger: Ledger, tmp_path: Path) -> None:
    one, other = samples(people(), ledger), samples(people(), Ledger(tmp_path / "elsewhere"))
    assert not looks_known(one, known(other))
    old = [Sample(s.kind, s.name, s.hashes, s.reach, version=0) for s in one]
    assert not looks_known(one, known(old))


def test_kinds_are_not_mixed_up() -> None:
    hashes = np.arange(100)
    row, column, person = (Sample(kind, "x", hashes, 200) for kind in ("row", "column", "individual"))  # type: ignore[arg-type]
    assert overlap(row, row) == overlap(column, column) == overlap(person, person) == 1
    assert overlap(row, column) == overlap(column, person) == overlap(person, row) == 0


def test_the_ledger_holds_no_cell(ledger: Ledger) -> None:
    ledger.remember(samples(people(), ledger, id="who"), account="a")
    content = (ledger.home / "ledger.sqlite").read_bytes()
    assert b"p0-17" not in content and str(people().income[17]).encode() not in content
    (sample, *_) = [old.sample for old in ledger.known()]
    with duckdb.connect() as db:  # a plain hash of a guess is not in it either
        guess = int(db.execute("SELECT md5(?)", ["p0-17"]).fetchone()[0][:15], 16)  # type: ignore[index]
    assert guess not in set(sample.hashes.tolist())


# ------------------------------------------------------------------------------------------------ splits


def test_a_second_split_of_the_same_rows_is_pointed_out(ledger: Ledger, tmp_path: Path) -> None:
    people().to_csv(tmp_path / "t.csv", index=False)
    first = split_table(tmp_path / "t.csv", ledger, test=HALF, id_column="who")
    assert not first.notes
    again = split_table(tmp_path / "t.csv", ledger, test=HALF, id_column="who", out=tmp_path / "again")
    assert len(again.notes) == 1 and first.id in again.notes[0] and "add up" in again.notes[0]
    people().sample(frac=1, random_state=1).to_parquet(tmp_path / "other.parquet")
    assert split_table(tmp_path / "other.parquet", ledger, test=HALF).notes
    assert not split_frame(people(seed=4), ledger, test=HALF).notes


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_a_table_in_memory_is_divided_by_individual_into_tables_of_its_kind(kind: str, ledger: Ledger) -> None:
    frame = pd.concat([people(200), people(200)])
    table = {"pandas": frame, "polars": pl.from_pandas(frame), "arrow": pa.Table.from_pandas(frame)}[kind]
    parts = split_frame(table, ledger, test=HALF, id_column="who")
    assert type(parts.train) is type(parts.test) is type(table)
    train, test = (set(pd.DataFrame({"who": part["who"].to_numpy()}).who) for part in (parts.train, parts.test))
    assert train and test and not train & test and train | test == set(frame.who)
    share = ledger.share_of(place="", part="train", split=parts.id)
    assert share is not None and share[1] == "who"
    assert ledger.share_of(place="", part="train") is None  # without its id, a table in memory is no part of anything


def test_the_id_of_another_tables_split_is_doubted(ledger: Ledger) -> None:
    card: dict[str, Any] = {"dataset": {"name": "t"}, "features": {"income": {"bounds": [0, 100_000]}}}
    mine, others = split_frame(people(), ledger, test=HALF), split_frame(people(seed=9), ledger, test=HALF)
    described = Card.parse(card).for_request("train")
    request = ReleaseRequest(described, Budget("1", "1e-6"), Neighbours.REPLACE_ONE, part="train", allocation="equal")
    heard: list[str] = []

    def ask(doubt: Doubt) -> bool:
        heard.append(doubt.text)
        return False

    with pytest.raises(InvalidInput):
        privatize(mine.train, replace(request, split=others.id), ledger, ask=ask)
    assert "do not look like those of the split" in heard[0] and ledger.accounts() == []
    assert not privatize(mine.train, replace(request, split=mine.id), ledger, ask=ask).notes


def test_a_table_of_ids_alone_can_be_divided(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("who\na\nb\n")
    assert split_table(tmp_path / "t.csv", ledger, test=HALF, id_column="who").id
