"""A request of the page beside the same request of the product: what both know of a table before any noise."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privacy.mechanisms import Plan, PlanRequest
from saibot.privatize import Card, ReleaseRequest, prepare
from saibot.privatize.aggregate import ExactStatistics, aggregate
from saibot.privatize.release import _Piece, _scale
from saibot.sketch.header import _claimed_plan

# Defines `exactRequest`, which is given { typed } with the key's domain as { spelled } or { id, values }, reads the table
# and plans the request. In node modules are imported, in a browser they are those of the page that is open.
EXACT_REQUEST = """
async function exactRequest({ typed, secret }, file, page) {
  const { cardOf, cardToml } = await page("card"), { generatedDomain, listedDomain } = await page("key_domain");
  const { prepared } = await page("request"), { readNames } = await page("csv"), { planDocument } = await page("plan");
  const ledgers = await page("ledger"), vectors = await page("release"), json = await page("canonical_json");
  const key = typed.key && {
    ...typed.key,
    domain: typed.key.spelled ? generatedDomain(typed.key.spelled) : listedDomain(typed.key.id, 1, typed.key.values),
    source: { kind: typed.key.spelled ? "spelled" : "list" },
  };
  const card = cardOf({ ...typed, key }), ledger = ledgers.newLedger();
  const names = (await readNames(file)).map((name) => name.trim());
  const options = { again: false, now: "2026-01-01T00:00:00Z", progress: async () => {} };
  const ready = await prepared(file, names, card, ledger, options);
  return {
    toml: cardToml(card),
    secret: ledgers.secretFor(ledger, `rows kept in ${card.name}`),
    parts: Array.from(ready.divided),
    doubts: ready.doubts,
    releases: ready.releases.map(({ name, part, plan, bits, mostRows, sums }) => ({
      name, part, bits, mostRows,
      plan: JSON.parse(json.canonicalJson(planDocument(plan))),
      whole: sums.whole.map(String),
      perKey: sums.perKey && Array.from(sums.perKey),
      scale: vectors.noiseScale(plan, bits, mostRows),
      vector: vectors.scaledVector(plan, bits, mostRows, sums).map(({ scaled, divisor }) => [String(scaled), divisor]),
    })),
  };
}
"""
IN_NODE = EXACT_REQUEST + "return await exactRequest(data, new File([data.content], data.name), page);"


@dataclass(frozen=True)
class OfProduct:
    """What the product knows of one part of a request."""

    bits: int
    exact: ExactStatistics
    plan: Plan


def of_product(found: dict[str, Any], release: dict[str, Any], text: str, typed: dict[str, Any], folder: Path) -> OfProduct:
    """The same part by `saibot privatize`: its rows in a file of their own, and the card that the page writes."""
    heading, *rows, rest = (f"{line}\n" for line in text.split("\n"))
    assert len(rows) == len(found["parts"]) and rest == "\n"
    path = folder / f"{release['name']}.csv"
    path.write_text(
        heading + "".join(row for row, part in zip(rows, found["parts"], strict=True) if part == release["part"])
    )
    (folder / "card.toml").write_text(found["toml"], encoding="utf-8")
    card = Card.read(folder / "card.toml").for_request(release["name"])
    budget = Budget(typed["epsilon"], typed["delta"])
    key = None if typed["key"] is None else (typed["key"].get("name") or typed["key"]["column"])
    request = ReleaseRequest(card, budget, Neighbours(typed["neighbours"]), key=key, part=release["name"])
    ready = prepare(path, request, Ledger(Path(tempfile.mkdtemp(dir=folder))))
    exact = aggregate(replace(ready.rows, secret=found["secret"]), ready.grid, order=2)
    return OfProduct(ready.grid.bits, exact, ready.plan)


def cells_that_agree(found: dict[str, Any], text: str, typed: dict[str, Any], folder: Path) -> int:
    """Compare all statistics before noise, and the vector that gets it; how many numbers were compared."""
    compared = 0
    for release in found["releases"]:
        product = of_product(found, release, text, typed, folder)
        exact = product.exact
        assert release["bits"] == product.bits
        assert [int(value) for value in release["whole"]] == exact.whole.tolist()
        compared += len(exact.whole)
        plan = _claimed_plan(release["plan"], PlanRequest.from_json(release["plan"]["request"]))
        assert plan.request == product.plan.request
        if release["perKey"] is not None:
            columns = 1 + plan.request.features
            assert release["perKey"] == exact.levels[0][:, :columns].ravel().tolist()
            compared += exact.levels[0][:, :columns].size
        scale = _scale(plan, exact.grid, release["mostRows"])
        assert release["scale"] == scale
        pieces = [_Piece.of(block, exact, plan, scale, release["mostRows"]) for block in plan.blocks]
        vector = [value for piece in pieces for value in piece.scaled.ravel().tolist()]
        divisors = [
            value for piece in pieces for value in np.broadcast_to(piece.divisor, piece.scaled.shape).ravel().tolist()
        ]
        assert [[int(scaled), divisor] for scaled, divisor in release["vector"]] == [
            list(pair) for pair in zip(vector, divisors, strict=True)
        ]
        compared += len(vector)
    return compared
