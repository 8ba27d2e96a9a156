"""What a release asks of the ledger, and where the sketch that it bought is kept to be handed out again."""

from __future__ import annotations

import json
from pathlib import Path

from saibot.privacy.account import Charge
from saibot.privacy.ledger import Ledger
from saibot.privatize.request import Prepared
from saibot.sketch import SUFFIX


def charge_for(ready: Prepared, ledger: Ledger) -> Charge:
    """What this release asks of the ledger. Its identity covers the card, the plan, the domains and the rows."""
    request = ready.request
    key = ready.rows.key
    identity = {
        "card": request.card.model_dump(mode="json", exclude={"budget"}),
        "plan": ready.plan.request.to_json(),
        "budget": request.budget.to_json(),
        "domains": [part.domain.digest for part in key.parts] if key else [],
        "key": request.key,
        "features": list(request.features),
        "paper": request.paper_preparation,
        "model": request.model,
    }
    release_id = ledger.fingerprint([json.dumps(identity, sort_keys=True).encode(), ready.source])
    return Charge(
        dataset=request.card.dataset.name,
        neighbours=request.neighbours,
        cap=request.card.budget.limit if request.card.budget else None,
        asked=request.budget,
        events=ready.events,
        source=ready.source,
        release=release_id,
        new_version=request.new_version,
    )


def sketch_path(ledger: Ledger, digest: str | None) -> Path:
    """Where this machine keeps its own copy of a sketch, to hand it out again."""
    return ledger.home / "sketches" / f"{digest}{SUFFIX}"
