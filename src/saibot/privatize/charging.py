"""What a release asks of the ledger, and where the sketch that it bought is kept to be handed out again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saibot.privacy.account import Charge, Share
from saibot.privacy.ledger import Ledger
from saibot.privatize.card import Card
from saibot.privatize.coverage import coverage_charge
from saibot.privatize.read import TableLike
from saibot.privatize.release_request import Prepared, ReleaseRequest, Resolved, events_together
from saibot.safe_file import write_safely
from saibot.sketch import SUFFIX

ADDED_TO_DOMAINS = ("find", "buy", "each", "individuals")


def release_identity(ledger: Ledger, *together: Resolved) -> bytes:
    """What makes two requests the same: card, plan, domains and options. Not the rows, nor how many there are.

    Were the rows part of it, the answer to a repeated request would tell whether they have changed.
    """
    parts = [_identity(resolved) for resolved in together]
    return ledger.fingerprint([json.dumps(parts[0] if len(parts) == 1 else parts, sort_keys=True).encode()])


def _identity(resolved: Resolved) -> dict[str, Any]:
    request, key = resolved.request, resolved.key
    identity = {
        "card": _as_it_always_was(request.card),
        "plan": resolved.plan_request.to_json(),
        "budget": request.budget.to_json(),
        "domains": [part.domain.digest for part in key.parts] if key else [],
        "key": request.key,
        "features": list(request.features),
        "paper": request.paper_preparation,
        "model": request.model,
    }
    return identity if request.coverage is None else identity | {"coverage": request.coverage}


def _as_it_always_was(card: Card) -> dict[str, Any]:
    """The card without the fields that were added later and say nothing in it: it asks for what it asked for before."""
    document = card.model_dump(mode="json", exclude={"budget"})
    for feature in document["features"].values():
        if not feature["log"]:
            del feature["log"]
    for key in document["keys"].values():
        for name in ADDED_TO_DOMAINS if key["domain"] is not None else ():
            if key["domain"][name] is None:
                del key["domain"][name]
    if document["component"] is not None and document["component"]["keep"] == 1:
        del document["component"]["keep"]
    return document


def charge_for(parts: Sequence[Prepared], resolved: Sequence[Resolved], ledger: Ledger, share: Share | None) -> Charge:
    """What a release asks of the ledger, by one key or by several."""
    request, facts = parts[0].request, parts[0].request.card.dataset
    return Charge(
        account=facts.account or facts.name,
        dataset=facts.name,
        neighbours=request.neighbours,
        unit=facts.id,
        cap=request.card.budget.limit if request.card.budget else None,
        aside=request.card.budget.keys if request.card.budget else None,
        asked=request.budget,
        events=events_together(parts),
        source=parts[0].source,
        release=release_identity(ledger, *resolved),
        share=share,
        new_version=request.new_version,
        rows_per_individual=facts.rows_per_individual,
    )


def charges_of(
    parts: Sequence[Prepared], resolved: Sequence[Resolved], ledger: Ledger, share: Share | None
) -> tuple[Charge, ...]:
    """All that a release asks of the ledger, in its order: counts of rows in the domains first, where they are bought.

    A count that was bought before is not charged again.
    """
    charge = charge_for(parts, resolved, ledger, share)
    first = [one for part in parts if (one := count_charge(part, charge, ledger)) is not None]
    anew = parts[0].request.new_version
    return (*(one for one in first if anew or ledger.find(one.dataset, one.release) is None), charge)


def count_charge(part: Prepared, charge: Charge, ledger: Ledger) -> Charge | None:
    """What the count of rows by one key asks of the ledger, where it is bought; `charge` is that of the whole release."""
    event = part.coverage_event
    if event is None or part.coverage is None:
        return None
    assert part.rows.key is not None
    return coverage_charge(charge, event, part.coverage, ledger, key=part.rows.key.name)


def recorded_share(table: TableLike, request: ReleaseRequest, ledger: Ledger) -> tuple[Share | None, bytes | None]:
    """The part of a recorded split that a table is, if `saibot split` made it by the individuals that are protected here.

    Recognised by the path it was written to, or by the split's id, because its price must not depend on its rows. The second
    value is the fingerprint of the part when it was written, to warn the provider if the part has changed.
    """
    if request.part is None:
        return None, None
    place = str(Path(table).resolve()) if isinstance(table, str | Path) else ""
    found = ledger.share_of(place=place, part=request.part, split=request.split)
    if found is None:
        return None, None
    share, unit, source = found
    # Also where rows are protected one by one: in a split by individual, a row with another's id goes to another part.
    return (share, source) if request.card.dataset.id == unit else (None, None)


def keep_sketches(ledger: Ledger, contents: dict[str, bytes]) -> str:
    """Keep sketches, by their digests, to hand them out again. Returns the digest that the ledger knows all of them by."""
    for digest, content in contents.items():
        write_safely(sketch_path(ledger, digest), content)
    if len(contents) == 1:
        return next(iter(contents))
    listed = json.dumps(list(contents)).encode()
    together = hashlib.sha256(listed).hexdigest()
    write_safely(_list_path(ledger, together), listed)
    return together


def kept_sketches(ledger: Ledger, digest: str | None) -> list[bytes] | None:
    """The sketches that the ledger knows by a digest; None where one of them is gone."""
    listed = _list_path(ledger, digest)
    digests = json.loads(listed.read_bytes()) if listed.is_file() else [digest]
    paths = [sketch_path(ledger, one) for one in digests]
    return [path.read_bytes() for path in paths] if all(path.is_file() for path in paths) else None


def sketch_path(ledger: Ledger, digest: str | None) -> Path:
    """Where this machine keeps its own copy of a sketch, to hand it out again."""
    return ledger.home / "sketches" / f"{digest}{SUFFIX}"


def _list_path(ledger: Ledger, digest: str | None) -> Path:
    """Where it keeps the digests of sketches that were released in one go."""
    return ledger.home / "sketches" / f"{digest}.json"
