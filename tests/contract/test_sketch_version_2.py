"""What version 2 of the sketch file added: types, account and total, room for open tables and for a signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from saibot.privacy import Budget
from saibot.sketch import read_sketch, write_sketch
from tests.support.forging import NAMES, Document, content_of, drop_at, forge, opened, refused, set_at


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


def test_an_open_sketch_is_exact_has_a_source_and_no_price_and_is_not_read_yet() -> None:
    def opening(document: Document) -> None:
        free = {"budget": {}, "plan": {}, "account": None, "spent": None, "simulation": False}
        document.update(free, open=True, source="https://example.org/flights.csv")
        document["assumptions"]["noise"] = "none"

    def opening_without(**less: Any) -> Callable[[Document], None]:
        return lambda document: (opening(document), document.update(less))  # type: ignore[return-value]

    content = content_of("v2-lookup-levels")
    assert "is open" in refused(forge(content, opening))
    assert "names the public source" in refused(forge(content, opening_without(source=None)))
    assert "no budget" in refused(forge(content, opening_without(budget={"epsilon": "1", "delta": "0"})))
    assert "no noise" in refused(forge(content, opening_without(simulation=True)))


def test_no_release_is_open_by_itself() -> None:
    assert not any(read_sketch(content_of(name)).header.open for name in NAMES)


def test_sketches_of_one_account_name_it_alike_and_say_what_all_of_them_cost() -> None:
    first, second, other = (read_sketch(content_of(name)).header for name in NAMES[3:])
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
