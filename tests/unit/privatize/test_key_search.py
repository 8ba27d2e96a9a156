"""Keys that are found in the rows: who is counted with which, what becomes of the list, what is refused before payment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from saibot.audit.cases import Case
from saibot.audit.cells import KEYS, NUMERIC
from saibot.audit.measuring import FAR, compare, measure
from saibot.audit.sources import SOURCES
from saibot.domains import imported_domains, named_domain
from saibot.domains.meaning import different, meaning
from saibot.errors import InvalidCard, InvalidDomain, InvalidInput, LedgerConflict, UnsupportedPlan
from saibot.privacy import Budget, KeysEvent, Neighbours, Spent
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, Prepared, Released, ReleaseRequest, dry_run, prepare, privatize
from saibot.privatize.key_search import count_individuals
from saibot.privatize.noise import NoiseSource

BUDGET = Budget("1", "1e-6")
CITIES = {"Aachen": 900, "Bonn": 400, "Celle": 200, "Dorf": 12, "Einhaus": 1}


def card(find: dict[str, Any] | None = None, **sections: Any) -> dict[str, Any]:
    keys = {"city": {"domain": {"find": "city"} | (find or {})}}
    return {"dataset": {"name": "t"}, "features": {"x": {"bounds": [0, 1]}}, "keys": keys} | sections


def people(cities: dict[str, int] = CITIES) -> pd.DataFrame:
    names = [city for city, count in cities.items() for _ in range(count)]
    return pd.DataFrame({"x": np.linspace(0, 1, len(names)), "city": names})


def find(table: Any, ledger: Ledger, document: dict[str, Any], **options: Any) -> Released:
    terms = {"budget": BUDGET, "neighbours": Neighbours.REPLACE_ONE, "key": "city", "allocation": "equal"} | options
    noise = terms.pop("noise", None)
    return privatize(table, ReleaseRequest(Card.parse(document), **terms), ledger, noise=noise)


def listed(released: Released) -> list[str]:
    return [str(key) for key in released.sketch.levels[0].keys[0]]


# ------------------------------------------------------------------------------------------------ the release


def test_the_keys_that_many_have_are_found_and_the_others_share_the_catch_all(ledger: Ledger) -> None:
    released = find(people(), ledger, card())
    header = released.sketch.header
    assert listed(released) == ["Aachen", "Bonn", "Celle", "__other__"]
    assert header.key is not None and header.key.parts[0].domain.startswith("found:city:")
    assert header.preparation.kind == "bought" and header.preparation.steps[0].startswith("keys of city found for μ=0.105")
    assert not header.assumptions.key_domain_public
    assert released.entry.events[0] == KeysEvent(0.1053193838141114, 2, released.entry.events[0].delta)  # type: ignore[union-attr]
    assert Spent.of(released.entry.events).within(BUDGET) and header.read_plan().request.budget == Budget("1", "9e-7")
    account = ledger.account("t")
    assert account is not None and 0.999 < account.spent_epsilon <= 1


def test_the_counts_are_those_of_the_rows(ledger: Ledger, no_noise: NoiseSource) -> None:
    released = find(people(), ledger, card(), noise=no_noise)
    assert np.allclose(released.sketch.levels[0].values[:, 0], [900, 400, 200, 13])


def test_the_same_release_again_is_the_same_sketch(ledger: Ledger) -> None:
    first, second = find(people(), ledger, card()), find(people(), ledger, card())
    assert second.repeated and second.content == first.content


def test_a_list_that_was_found_serves_other_releases_for_nothing(ledger: Ledger) -> None:
    document = card(budget={"cap": {"epsilon": "3", "delta": "1e-6"}})
    find(people(), ledger, document)
    again = find(people({"Bonn": 300, "Zell": 500}), ledger, document, new_version=True)
    assert listed(again) == ["Aachen", "Bonn", "Celle", "__other__"] and len(again.entry.events) == 1
    assert again.sketch.header.assumptions.key_domain_public and again.sketch.header.preparation.kind == "public"
    assert any("was found on this machine before" in note for note in again.notes)


def test_another_version_of_the_list_is_found_anew(ledger: Ledger) -> None:
    aside = {"cap": {"epsilon": "3", "delta": "1e-6", "keys": "2e-7"}}
    find(people(), ledger, card(budget=aside))
    second = find(people({"Zell": 900}), ledger, card({"version": 2}, budget=aside))
    assert listed(second) == ["Zell", "__other__"]


def test_a_second_list_needs_a_part_of_delta_that_was_set_aside(ledger: Ledger) -> None:
    document = card(budget={"cap": {"epsilon": "3", "delta": "1e-6"}})
    find(people(), ledger, document)
    document["keys"]["other"] = {"column": "city", "domain": {"find": "town"}}
    with pytest.raises(LedgerConflict, match="set aside for finding keys"):
        find(people(), ledger, document, key="other")


def test_bounds_and_a_component_are_bought_beside_keys(ledger: Ledger) -> None:
    table = people({"Aachen": 5000, "Bonn": 4000}).assign(y=lambda t: 1 - t.x)
    features = {"x": {"bounds": {"buy": "0.1"}}, "y": {"bounds": [0, 1]}}
    released = find(table, ledger, card(features=features, component={"of": ["x", "y"], "buy": "0.2"}))
    kinds = [event.to_json()["kind"] for event in released.entry.events]
    assert kinds == ["keys", "choice", "gaussian", "gaussian"]
    assert Spent.of(released.entry.events).within(BUDGET) and len(released.sketch.header.preparation.steps) == 3


def test_no_key_is_found_after_a_charge_only_where_the_provider_went_on(ledger: Ledger) -> None:
    table = people({f"village {number}": 10 for number in range(30)})
    with pytest.raises(InvalidInput, match="no key of 'city' has the 85 individuals"):
        find(table, ledger, card())
    assert ledger.accounts() == []
    with pytest.raises(InvalidInput, match="What it cost is spent"):
        find(table, ledger, card(), yes=True)
    assert len(ledger.accounts()[0].entries) == 1


def test_a_simulated_list_is_not_kept(ledger: Ledger, no_noise: NoiseSource) -> None:
    find(people(), ledger, card(), noise=no_noise)
    assert imported_domains() is None


# ------------------------------------------------------------------------------------------------ individuals


def counted(ready: Callable[..., Prepared], table: Any, *, rows: int = 1, id: str | None = None, **facts: Any) -> dict:
    dataset = {"name": "t", "max_rows": 10_000} | ({"id": id, "rows_per_individual": rows} if id else {})
    checked = ready(table, card(facts, dataset=dataset), key="city", budget=Budget("1000", "1e-6"))
    assert checked.finding is not None and checked.rows.key is not None and checked.rows.key.to_find is not None
    found = count_individuals(checked.rows, checked.rows.key.to_find, each=checked.finding.keys_each)
    return dict(zip(found.keys, found.individuals.tolist(), strict=True))


def test_individuals_are_counted_and_not_rows(ready: Callable[..., Prepared]) -> None:
    table = pd.DataFrame({"x": 0.5, "city": ["a"] * 6 + ["b"], "who": [1, 1, 1, 2, 2, None, 3]})
    assert counted(ready, table, rows=3, id="who") == {"a": 2, "b": 1}
    assert counted(ready, table.drop(columns="who")) == {"a": 6, "b": 1}


def test_an_individual_is_counted_with_so_many_keys_and_no_more(ready: Callable[..., Prepared]) -> None:
    table = pd.DataFrame({"x": 0.5, "city": list("abcdef") * 50, "who": np.repeat(np.arange(50), 6)})
    for each in (1, 2, 4):
        found = counted(ready, table, rows=6, id="who", each=each)
        assert sum(found.values()) == 50 * each and len(found) == 6, "by a hash of individual and key: nobody's first"
    assert sum(counted(ready, table, rows=3, id="who").values()) == 150


def test_which_keys_an_individual_is_counted_with_depends_on_nobody_else(ready: Callable[..., Prepared]) -> None:
    table = pd.DataFrame({"x": 0.5, "city": list("abcdef") * 20, "who": np.repeat(np.arange(20), 6)})
    everybody = counted(ready, table, rows=6, id="who", each=2)
    for person in range(20):
        less = counted(ready, table[table.who != person], rows=6, id="who", each=2)
        apart = [everybody[city] - less.get(city, 0) for city in everybody]
        assert sorted(apart) == [0, 0, 0, 0, 1, 1]


def test_keys_have_one_spelling_and_what_is_no_key_is_not_counted(ready: Callable[..., Prepared]) -> None:
    cells = ["7", "7.0", " 7 ", "07", "", None, "2024-01-01 00:00:00", "2024-01-01", "__other__", "\x1b[2J", "a" * 201]
    found = counted(ready, pd.DataFrame({"x": 0.5, "city": cells}))
    assert found == {"7": 3, "07": 1, "2024-01-01": 2}


# ------------------------------------------------------------------------------------------------ refused before payment


def test_too_few_rows_for_any_key_are_refused_with_the_number_it_takes(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="it takes about 85 individuals with one key, and the table has 80 rows"):
        find(people({"Aachen": 80}), ledger, card())
    with pytest.raises(InvalidInput, match=r"about 85 individuals .* usual ones have 50"):
        find(people(), ledger, card({"individuals": 50}))
    dataset = {"name": "t", "max_rows": 50}
    with pytest.raises(InvalidInput, match="about 60 individuals with one key, and the table has 50 rows"):
        find(people(), ledger, card(dataset=dataset), neighbours=Neighbours.ADD_REMOVE)
    assert ledger.accounts() == []


def test_a_dry_run_says_how_many_individuals_it_takes(ledger: Ledger) -> None:
    request = ReleaseRequest(Card.parse(card()), BUDGET, Neighbours.REPLACE_ONE, key="city", allocation="equal")
    found = dry_run(people(), request, ledger).to_json()
    assert found["finding"]["least_individuals"] == 85 and found["events"][0]["delta"] == "9.5e-8"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"find": "My City"}, "small letters"),
        ({"find": "city", "id": "x"}, "no id of their own"),
        ({"find": "city", "values": ["a"]}, "exactly one"),
        ({"find": "city", "buy": "1.5"}, "between 0 and 1"),
        ({"range": [1, 5], "each": 2}, "go with find"),
    ],
)
def test_a_card_that_finds_keys_in_an_odd_way_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidCard, match=said):
        Card.parse(card() | {"keys": {"city": {"domain": wrong}}})


def test_keys_cannot_be_found_without_delta_nor_by_one_individual_alone(ledger: Ledger) -> None:
    with pytest.raises(UnsupportedPlan, match="delta = 0"):
        find(people(), ledger, card(), budget=Budget("1"))
    with pytest.raises(InvalidInput, match="local model"):
        find(people()[:1], ledger, card(), model="local")
    with pytest.raises(InvalidInput, match="whole budget"):
        find(people(), ledger, card({"buy": "0.95"}))
    with pytest.raises(InvalidCard, match="no coarser levels"):
        Card.parse(card() | {"keys": {"city": {"domain": {"find": "city"}, "levels": ["state"]}}})
    assert ledger.accounts() == []


def test_a_composite_key_takes_its_parts_from_lists_that_were_found(ledger: Ledger) -> None:
    document = card(budget={"cap": {"epsilon": "9", "delta": "1e-6"}})
    document["keys"] |= {"sex": {"domain": {"values": ["f", "m"], "id": "sex"}}, "both": {"parts": ["city", "sex"]}}
    table = people().assign(sex="f")
    with pytest.raises(InvalidDomain, match="have not been found on this machine"):
        find(table, ledger, document, key="both")
    find(table, ledger, document)
    assert len(listed(find(table, ledger, document, key="both"))) == 7


# ------------------------------------------------------------------------------------------------ the list


def test_the_list_is_known_by_its_name_and_joins_what_is_called_alike(ledger: Ledger) -> None:
    released = find(people(), ledger, card())
    assert released.sketch.header.key is not None
    id = released.sketch.header.key.parts[0].domain
    assert named_domain(id).values == ("Aachen", "Bonn", "Celle") and meaning(id) == "city"
    assert different(id, "found:street:00000000") and different(id, "range:department:1:9")
    assert not different(id, "found:city:00000000") and not different(id, "us-state") and not different(id, "some-list")


# ------------------------------------------------------------------------------------------------ exact sensitivity


def moved(neighbours: str) -> Case:
    dataset = {"name": "audited", "neighbours": neighbours, "max_rows": 1000}
    document = card({"buy": "0.3"}, dataset=dataset, features={"x": dict(NUMERIC[1].facts)})
    row = {"x": 5.0, "city": 2}
    versions = (({"x": 5.0, "city": 1},), ({"x": 5.0, "city": 3},)) if neighbours == "replace-one" else ((), (row,))
    asked = {"mechanism": "joint", "layout": "lookup", "order": 2, "key": "city", "allocation": "equal"}
    return Case("moved", {"x": NUMERIC[1], "city": KEYS[0]}, document, asked, Budget("2000", "1e-6"), (row,) * 9, versions)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_one_individual_moves_the_counts_as_far_as_is_claimed_and_no_further(neighbours: str, tmp_path: Path) -> None:
    case = moved(neighbours)
    source = next(one for one in SOURCES if one.name == "csv")
    for factor, broken in ((1.0, None), (0.7, FAR)):
        tables = []
        for version in (0, 1):
            folder = tmp_path / f"{factor}-{version}"
            folder.mkdir()
            table = source.table(case.rows(version), case.columns, folder)
            tables.append(measure(table, case, source, Ledger(tmp_path / "ledger"), noise_factor=factor))
        found = compare(tables[0], tables[1])
        assert found.broken == broken
        keys = tables[0].parts[0].values - tables[1].parts[0].values  # type: ignore[union-attr]
        assert np.linalg.norm(keys) * factor == pytest.approx(tables[0].parts[0].claim, rel=1e-3)  # type: ignore[union-attr]


def test_prepare_reads_no_list_of_another_name(ledger: Ledger) -> None:
    find(people(), ledger, card())
    other = card()
    other["keys"]["city"]["domain"]["find"] = "town"
    checked = prepare(people(), ReleaseRequest(Card.parse(other), BUDGET, Neighbours.REPLACE_ONE, key="city"), ledger)
    assert checked.finding is not None


# ------------------------------------------------------------------------------------------------ one cell and others


def test_a_missing_key_is_none_to_be_found_whether_it_is_a_number_or_a_text(ready: Callable[..., Prepared]) -> None:
    """Somebody's word makes texts of a polars column of floats, and `NaN` of everybody's missing cells."""
    numbers = pl.DataFrame({"x": [0.5] * 900, "city": [float("nan")] * 300 + [1.0] * 300 + [2.5] * 300})
    texts = numbers.with_columns(pl.col("city").cast(pl.String))
    assert counted(ready, numbers) == counted(ready, texts) == {"1": 300, "2.5": 300}


def test_with_which_keys_an_individual_is_counted_does_not_depend_on_how_ids_are_held(
    ready: Callable[..., Prepared],
) -> None:
    ids, cities = [float(i // 3) for i in range(900)], ["abc"[i % 3] for i in range(900)]
    numbers = pl.DataFrame({"x": [0.5] * 900, "city": cities, "who": ids})
    forms = [
        numbers,
        numbers.with_columns(pl.col("who").cast(pl.Int64)),
        numbers.with_columns(pl.col("who").cast(pl.String)),
    ]
    first, *others = (counted(ready, table, rows=3, id="who", each=1) for table in forms)
    assert sum(first.values()) == 300 and all(other == first for other in others)
