"""What version 2 of the sketch file added: types, account and total, open tables, and room for a signature."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from saibot.privacy import Budget
from saibot.sketch import read_sketch, write_sketch
from tests.support.forging import (
    Document,
    changed_column,
    content_of,
    drop_at,
    forge,
    forge_columns,
    opened,
    refused,
    set_at,
)

PRIVATE = ("v2-lookup-levels", "v2-semiring-composite", "v2-union-laplace")


@pytest.mark.parametrize("field", ["types", "open", "source", "account", "spent", "signature"])
def test_version_1_has_no_field_of_version_2(field: str) -> None:
    added = opened(content_of("v2-lookup-levels"))[0][field]
    message = refused(forge(content_of("lookup-levels"), set_at(field, to=added)))
    assert f"version 1 has no field '{field}'" in message


LIES_OF_2 = {
    "an account without a total": set_at("spent", to=None),
    "a total without an account": set_at("account", to=None),
    "an account by its name": set_at("account", to="golden-flights"),
    "a total below this sketch's own price": set_at("spent", "epsilon", to="0.9"),
    "a total at a smaller delta": set_at("spent", "delta", to="0"),
    "a total of nothing": set_at("spent", "epsilon", to="0"),
    "a total that is no number": set_at("spent", "epsilon", to="much"),
    "a total as a number": set_at("spent", "epsilon", to=1.5),
    "a total without delta": drop_at("spent", "delta"),
    "an unknown type": set_at("types", "features", "delay", to="blob"),
    "types of something else": set_at("types", "columns", to={}),
    "a signature that is a text": set_at("signature", to="mine"),
    "a signature that goes on for ever": set_at(
        "signature", to={"scheme": "x", "signer": "y", "value": "z" * 3000}
    ),
    "open, with noise and a budget": set_at("open", to=True),
    "open, with a source, and still with noise": lambda d: d.update(open=True, source="https://example.org/t.csv"),
    "a source, and not open": set_at("source", to="https://example.org/t.csv"),
    "no noise, and not open": set_at("assumptions", "noise", to="none"),
    "a missing field of its version": drop_at("types"),
    "an unknown field": set_at("nonsense", to=1),
}  # fmt: skip


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in LIES_OF_2.items()])
def test_a_header_of_version_2_that_lies_is_refused(change: Callable[[Document], None]) -> None:
    refused(forge(content_of("v2-lookup-levels"), change))


# ------------------------------------------------------------------------------------------------ open sketches


def test_an_open_sketch_is_read_and_has_no_noise_no_price_and_a_source() -> None:
    sketch = read_sketch(content_of("v2-open-levels"))
    header = sketch.header
    assert (header.open, header.source) == (True, "Invented for a test, https://example.org/flights.csv")
    assert (header.budget, header.plan, header.account, header.spent, sketch.plan) == ({}, {}, None, None, None)
    assert (sketch.mechanism, sketch.layout, header.rows) == ("exact", "lookup", 40)
    assert sketch.sigma("key", 1, level=1) == sketch.sigma("global", 2) == 0.0 and sketch.sigma("key", 2) is None


def _counted(change: Callable[[np.ndarray], None]) -> Callable[[list[pa.RecordBatch]], list[pa.RecordBatch]]:
    """Other counts of the finest keys."""

    def changed(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        counts = batches[0].column("c").to_numpy(zero_copy_only=False).copy()
        change(counts)
        return [changed_column(batches[0], "c", pa.array(counts)), *batches[1:]]

    return changed


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda counts: counts.__iadd__(0.25), "counts are not those of rows"),
        (lambda counts: counts.__setitem__(0, -1.0), "counts are not those of rows"),
        (lambda counts: counts.__setitem__(0, counts[0] + 1), "counts are not those of rows"),
    ],
    ids=["fractions", "below nothing", "one too many"],
)
def test_a_sketch_with_noise_cannot_be_marked_open(change: Callable[[np.ndarray], None], why: str) -> None:
    assert why in refused(forge_columns(content_of("v2-open-levels"), _counted(change)))


def test_sums_that_do_not_add_up_cannot_be_marked_open() -> None:
    def changed(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        noisy = batches[0].column("s:delay").to_numpy(zero_copy_only=False) + 0.5
        return [changed_column(batches[0], "s:delay", pa.array(noisy)), *batches[1:]]

    assert "sums do not add up" in refused(forge_columns(content_of("v2-open-levels"), changed))


def test_a_private_sketch_does_not_become_open_by_its_header() -> None:
    def opening(document: Document) -> None:
        free = {"budget": {}, "plan": {}, "account": None, "spent": None, "simulation": False}
        document.update(free, open=True, source="https://example.org/flights.csv")
        document["assumptions"]["noise"] = "none"

    assert "its counts are not those of rows" in refused(forge(content_of("v2-lookup-levels"), opening))


LIES_OF_OPEN = {
    "not open after all": (set_at("open", to=False), "says that it is open"),
    "no source": (set_at("source", to=None), "names the public source"),
    "a blank source": (set_at("source", to="  "), "names the public source"),
    "a budget": (set_at("budget", to={"epsilon": "1", "delta": "0"}), "no budget"),
    "a plan": (set_at("plan", to={"blocks": []}), "no budget, plan or account"),
    "an account": (
        lambda d: d.update(account="0" * 64, spent={"epsilon": "1", "delta": "0"}),
        "no budget, plan or account",
    ),
    "noise": (set_at("assumptions", "noise", to="exact-integer"), "has no noise"),
    "simulated": (set_at("simulation", to=True), "has no noise"),
    "reports of individuals": (set_at("model", to="local"), "has no noise"),
    "a hidden row count": (set_at("invariants", to={}), "hides nothing"),
    "hidden bounds": (set_at("assumptions", "bounds_public", to=False), "hides nothing"),
    "individuals": (set_at("assumptions", "rows_per_individual", to=2), "no individuals"),
    "something bought": (set_at("preparation", "kind", to="bought"), "no individuals"),
    "one global block": (lambda d: d["global_blocks"].pop(), "global block"),
    "other rows": (set_at("invariants", "rows", to=41), "counts are not those of rows"),
    "a norm bound of words": (set_at("bound_squared", to="large"), "bound_squared"),
}


@pytest.mark.parametrize("change, why", [pytest.param(*lie, id=name) for name, lie in LIES_OF_OPEN.items()])
def test_an_open_header_that_lies_is_refused(change: Callable[[Document], None], why: str) -> None:
    assert why in refused(forge(content_of("v2-open-levels"), change))


# ------------------------------------------------------------------------------------------------ accounts and types


def test_sketches_of_one_account_name_it_alike_and_say_what_all_of_them_cost() -> None:
    first, second, other = (read_sketch(content_of(name)).header for name in PRIVATE)
    assert first.account == second.account != other.account
    assert (first.total(), other.total()) == (Budget("1", "1e-6"), Budget("1"))
    total = second.total()
    assert total is not None and 1.4 < total.epsilon < 1.5 and total.delta == Budget("1", "1e-6").delta
    named = [part for header in (first, second) for part in (header.dataset.name, header.key.name if header.key else "")]
    assert named == ["golden-flights", "day", "golden-flights", "port_weekday"]  # one table, by two keys


def test_types_are_told_by_the_names_of_the_card() -> None:
    types = read_sketch(content_of("v2-lookup-levels")).header.types
    assert (types.features, types.keys) == ({"delay": "numeric", "origin": "category"}, {"day": "date"})
    types = read_sketch(content_of("v2-semiring-composite")).header.types
    assert (types.features["distance"], types.keys) == ("numeric", {"port": "text", "weekday": "text"})
    assert "date" not in types.keys  # the column's own name


def test_a_signature_is_kept_and_is_of_the_digest_which_it_does_not_change() -> None:
    content = content_of("v2-union-laplace")
    signed, bare = read_sketch(content), read_sketch(forge(content, set_at("signature", to=None)))
    assert signed.header.signature is not None and bare.header.signature is None
    assert signed.digest == bare.digest == opened(content)[0]["digest"]
    assert read_sketch(write_sketch(signed)).header.signature == signed.header.signature
