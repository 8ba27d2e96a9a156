"""What releases of the same tables have cost together, as pages say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, localcontext
from typing import Any

from saibot.platform.pages.sketch_facts import SketchReader
from saibot.platform.pages.visit import Visit
from saibot.privacy.budget import EXACT, plain

Spent = dict[str, str]


def tables_of(visit: Visit, reader: SketchReader, datasets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Datasets of one name are releases of one table, and so are their earlier versions: their budgets add up.

    Where the sketches name their account, what its ledger says counts: it adds Gaussian releases up more tightly, and knows
    of releases that were never published.
    """
    by_name: dict[str, list[dict[str, Any]]] = {}
    for dataset in datasets:
        by_name.setdefault(dataset["name"], []).append(dataset | {"budgets": _budgets(visit, reader, dataset)})
    return [
        {
            "name": name,
            "title": group[0]["title"],
            "source": group[0]["source"],  # of an open table
            "datasets": group,
            "account": next((one["account"] for one in group if one["account"]), None),
            "stated": next((one["spent"] for one in group if one["spent"]), None),
            "published": added(budget for dataset in group for budget in dataset["budgets"]),
            "unstated": added(budget for dataset in group if not dataset["spent"] for budget in dataset["budgets"]),
        }
        for name, group in by_name.items()
    ]


def spent_by(table: Mapping[str, Any]) -> Spent:
    """What a table has cost: what its ledger says, and published releases that no ledger speaks of."""
    return added([table["unstated"], *([table["stated"]] if table["stated"] else [])])


def together(tables: Iterable[Mapping[str, Any]]) -> Spent:
    """At most so much has been told of somebody who is in every one of these tables. Tables of one account count once."""
    accounts: dict[str, Spent] = {}
    others = []
    for table in tables:
        others.append(table["unstated"])
        if table["stated"]:
            accounts[table["account"]] = table["stated"]
    return added([*accounts.values(), *others])


def added(budgets: Iterable[Mapping[str, str]]) -> Spent:
    """Basic composition: epsilons add, deltas add."""
    epsilon = delta = Decimal(0)
    with localcontext(EXACT):
        for budget in budgets:
            epsilon += Decimal(budget["epsilon"])
            delta += Decimal(budget["delta"])
    return {"epsilon": plain(epsilon), "delta": plain(delta)}


def _budgets(visit: Visit, reader: SketchReader, dataset: dict[str, Any]) -> list[Spent]:
    if dataset["open"]:
        return []
    if dataset["version"] == 1:
        return [dataset["budget"]]
    versions = visit.platform.catalog.show(visit.caller, dataset["id"])["versions"]
    budgets = (reader.budget(version["digest"]) for version in versions)
    return [budget for budget in budgets if budget]
