"""A release rehearsed: checked against its table and the ledger. Charges nothing, draws nothing, writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from saibot.privacy.events import Event
from saibot.privacy.ledger import Ledger
from saibot.privacy.mechanisms import Plan
from saibot.privatize.charging import charges_of, recorded_share
from saibot.privatize.checking import prepare, prepare_together, resolve
from saibot.privatize.privatize import by_keys, stored
from saibot.privatize.read import TableLike
from saibot.privatize.release_request import Prepared, Progress, ReleaseRequest, coverage_events, events_together


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
        return (*coverage_events((self.ready,)), *self.ready.events)

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
    ready = prepare(table, request, ledger, progress=progress)
    return DryRun(ready, _repeated((ready,), table, request, ledger))


@dataclass(frozen=True)
class JointDryRun:
    """What a release by several keys would be: its parts, which share one charge."""

    parts: tuple[Prepared, ...]
    repeated: bool

    def to_json(self) -> dict[str, Any]:
        """As `saibot privatize --keys a,b --dry-run --json` prints it. All of it is public."""
        events = [event.to_json() for event in (*coverage_events(self.parts), *events_together(self.parts))]
        keys = {part.request.key or "": part.to_json() for part in self.parts}
        return {"keys": keys, "events": events, "repeated": self.repeated}


def dry_run_by_keys(
    table: TableLike,
    request: ReleaseRequest,
    keys: Sequence[str],
    ledger: Ledger,
    *,
    progress: Progress = lambda stage, part: None,
) -> JointDryRun:
    """What `privatize_by_keys` would do with this. Raises what it would raise before it charges."""
    parts = prepare_together(table, by_keys(request, keys), ledger, progress=progress)
    return JointDryRun(parts, _repeated(parts, table, request, ledger))


def _repeated(parts: Sequence[Prepared], table: TableLike, request: ReleaseRequest, ledger: Ledger) -> bool:
    """Whether it was bought before; if not, whether it could be is asked of the ledger."""
    resolved = [resolve(part.request) for part in parts]
    if not request.new_version and stored(resolved, ledger, simulated=False) is not None:
        return True
    ledger.check(*charges_of(parts, resolved, ledger, recorded_share(table, request, ledger)[0]))
    return False
