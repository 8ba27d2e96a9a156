"""An engine is one entry: tables are opened by its name, and one that is not there is refused with what would bring it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import ibis
import numpy as np
import pandas as pd
import pytest

from saibot.errors import InvalidInput
from saibot.extras import how_to_install
from saibot.privacy import Budget, Neighbours
from saibot.privatize import Card, ReleaseRequest
from saibot.privatize.engines import ENGINES, TableEngine, engine_of, open_engine, register
from saibot.privatize.engines.duckdb import DuckDB
from saibot.privatize.engines.polars import Polars
from saibot.privatize.read import open_table

CARD = {"dataset": {"name": "t"}, "features": {"x": {"bounds": [0, 1]}}}


class Counting(DuckDB):
    """DuckDB under another name, which notes what it was asked."""

    name = "counting"
    asked = 0

    def fetch(self, expression):
        Counting.asked += 1
        return super().fetch(expression)


class Missing(DuckDB):
    name = "missing"
    extra = "sparkling"

    @classmethod
    def open(cls) -> Self:
        raise ImportError("no module named sparkling")


@pytest.fixture
def counting() -> Iterator[type[TableEngine]]:
    yield register(Counting)
    del ENGINES["counting"]


def test_a_table_is_opened_and_summed_by_the_engine_that_was_named(counting):
    source = open_table(pd.DataFrame({"x": np.arange(5)}), backend="counting")
    assert isinstance(source.engine, Counting)
    before = Counting.asked
    assert source.fetch(source.table.aggregate(n=source.table.x.sum())).to_pylist() == [{"n": 10}]
    assert Counting.asked == before + 1


def test_a_release_can_ask_for_it_while_it_is_there(counting):
    asked = ReleaseRequest(Card.parse(CARD), Budget("1"), Neighbours.REPLACE_ONE, backend="counting")
    assert asked.backend == "counting"
    with pytest.raises(InvalidInput, match="--backend is duckdb or polars or postgres or spark or counting, not 'abacus'"):
        ReleaseRequest(Card.parse(CARD), Budget("1"), Neighbours.REPLACE_ONE, backend="abacus")


def test_an_engine_that_is_not_installed_is_refused_with_the_extra_that_brings_it(monkeypatch):
    register(Missing)
    try:
        with pytest.raises(InvalidInput, match="the engine missing is not installed") as refused:
            open_engine("missing")
    finally:
        del ENGINES["missing"]
    assert refused.value.hint == how_to_install("sparkling")
    monkeypatch.setattr(ibis, "polars", None)
    with pytest.raises(InvalidInput, match="the engine polars is not installed") as refused:
        open_engine("polars")
    assert refused.value.hint == how_to_install("polars")


def test_an_engine_that_is_always_there_hides_no_error_of_its_own(monkeypatch):
    monkeypatch.setattr(ibis, "duckdb", None)
    with pytest.raises(AttributeError):
        open_engine("duckdb")


def test_somebodys_own_table_is_asked_by_the_engine_of_its_connection():
    own = ibis.duckdb.connect()
    assert isinstance(engine_of(own), DuckDB)
    assert isinstance(engine_of(ibis.polars.connect()), Polars)
    assert type(engine_of(ibis.sqlite.connect())) is TableEngine


def test_texts_are_told_apart_by_their_bytes_in_somebodys_own_table_only():
    own = ibis.duckdb.connect()
    table = own.create_table("t", pd.DataFrame({"k": ["a", "A"]}))
    assert engine_of(own).spelling(table.k) is not None
    assert open_engine("duckdb").spelling(table.k) is None
    assert engine_of(ibis.polars.connect()).spelling(table.k) is None


def test_a_name_is_given_once():
    with pytest.raises(ValueError, match="already"):
        register(Polars)
