"""A provider's own view: what was published, what it has cost, and how to take it back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal, localcontext
from typing import Any

from starlette.responses import Response

from saibot.platform.catalog import Filter
from saibot.platform.errors import NotAllowed, Unusable
from saibot.platform.pages.sketch_facts import SketchReader
from saibot.platform.pages.visit import Visit, in_thread
from saibot.platform.pagination import read_cursor, write_cursor
from saibot.privacy.budget import EXACT, plain
from saibot.wire import Token

LIMIT = 100
TOKENS = 100


def show(visit: Visit, reader: SketchReader) -> Response:
    caller = visit.caller
    if not caller.has("admin"):
        visit.need("provider")
    place = read_cursor(visit.request.query_params.get("cursor"), str, int)
    page = visit.platform.catalog.list(caller, Filter(provider=caller.name), sort="name", place=place, limit=LIMIT)
    datasets = [json.loads(text) for text in page.items]
    return visit.page(
        "budget.html",
        here="budget",
        account=caller.name,
        roles=sorted(caller.roles),
        tables=_tables(visit, reader, datasets),
        next=write_cursor(page.next),
        tokens=_tokens(visit),
        all_tokens=caller.has("admin"),
        this_token=caller.token,
        limits=visit.platform.settings,
    )


def ask_withdrawal(visit: Visit) -> Response:
    dataset = visit.platform.catalog.show(visit.caller, visit.request.path_params["id"])
    visit.need("admin" if visit.caller.has("admin") else "provider")
    if dataset["provider"] != visit.caller.name and not visit.caller.has("admin"):
        raise NotAllowed("only its provider or an admin can withdraw a dataset.", hint="Ask the provider.")
    return visit.page("withdraw.html", here="budget", dataset=dataset)


async def withdraw(visit: Visit) -> Response:
    fields = await visit.form()
    if fields.get("sure") != "yes":
        raise Unusable("the withdrawal was not confirmed.", hint="Tick the box to confirm it.")
    await in_thread(visit.platform.withdraw, visit.caller, visit.request.path_params["id"])
    return visit.go("/budget?done=withdrawn")


def _tables(visit: Visit, reader: SketchReader, datasets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Datasets of one name are releases of one table, and so are their earlier versions: their budgets add up."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for dataset in datasets:
        by_name.setdefault(dataset["name"], []).append(dataset | {"budgets": _budgets(visit, reader, dataset)})
    return [
        {
            "name": name,
            "title": group[0]["title"],
            "source": group[0]["source"],  # of an open table
            "datasets": group,
            "spent": _spent(budget for dataset in group for budget in dataset["budgets"]),
        }
        for name, group in by_name.items()
    ]


def _spent(budgets: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Basic composition: epsilons add, deltas add. The provider's own ledger adds Gaussian releases up more tightly; it also
    knows of releases that were never published. This bound holds for whatever the published sketches hold."""
    epsilon = delta = Decimal(0)
    with localcontext(EXACT):
        for budget in budgets:
            epsilon += Decimal(budget["epsilon"])
            delta += Decimal(budget["delta"])
    return {"epsilon": plain(epsilon), "delta": plain(delta)}


def _budgets(visit: Visit, reader: SketchReader, dataset: dict[str, Any]) -> list[dict[str, str]]:
    if dataset["open"]:
        return []
    if dataset["version"] == 1:
        return [dataset["budget"]]
    versions = visit.platform.catalog.show(visit.caller, dataset["id"])["versions"]
    facts = (reader.read(version["digest"]) for version in versions)
    return [fact.budget for fact in facts if fact is not None and fact.budget is not None]


def _tokens(visit: Visit) -> list[Token]:
    accounts = visit.platform.accounts
    own: list[Token] = accounts.own(visit.caller)
    return accounts.list(visit.caller, None, TOKENS).items if visit.caller.has("admin") else own


async def revoke(visit: Visit) -> Response:
    await visit.form()
    await in_thread(visit.platform.accounts.revoke, visit.caller, visit.request.path_params["id"])
    return visit.go("/budget?done=revoked")
