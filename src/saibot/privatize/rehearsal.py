"""A release rehearsed: checked against its table and the ledger. Charges nothing, draws nothing, writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from saibot.privacy.events import Event
from saibot.privacy.ledger import Ledger
from saibot.privacy.mechanisms import Plan
from saibot.privatize.charging import charge_for, charges, recorded_share
from saibot.privatize.checking import prepare, resolve
from saibot.privatize.privatize import stored
from saibot.privatize.read import TableLike
from saibot.privatize.release_request import Prepared, Progress, ReleaseRequest


@dataclass(frozen=True)
class DryRun:
    """What a release would be. `repeated`: it was bought before, and would be handed out again at no further cost."""

    ready: Prepared
    repeated: bool

    @property
    def plan(self) -> Plan:
        """Sensitivity and noise of every block."""
        return self.ready.plan

    @property
    def events(self) -> tuple[Event, ...]:
        """What the ledger would be charged with, unless it is repeated."""
        return self.ready.events

    @property
    def values(self) -> int:
        """How many numbers would get noise."""
        return self.ready.draws

    def to_json(self) -> dict[str, Any]:
        """As `saibot privatize --dry-run --json` prints it. All of it is public."""
        return self.ready.to_json() | {"repeated": self.repeated}


def dry_run(
    table: TableLike, request: ReleaseRequest, ledger: Ledger, *, progress: Progress = lambda stage, part: None
) -> DryRun:
    """What `privatize` would do with this. Raises what it would raise before it charges, `BudgetExceeded` included."""
    resolved = resolve(request)
    ready = prepare(table, request, ledger, progress=progress)
    repeated = not request.new_version and stored(resolved, ledger, simulated=False) is not None
    if not repeated:
        charge = charge_for(ready, resolved, ledger, recorded_share(table, request, ledger)[0])
        ledger.check(*charges(ready, charge, ledger))
    return DryRun(ready, repeated)
