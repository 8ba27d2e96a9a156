"""From a table to a sketch: the whole way, in the order that keeps the promises.

Everything that can be wrong is found before anything is spent. The ledger is charged before the first draw of noise. The
sketch is safe on disk before its receipt is written. What cannot be undone is never in doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from saibot.privacy.account import LedgerEntry
from saibot.privacy.ledger import Ledger
from saibot.privatize import bounds
from saibot.privatize.aggregate import Rows, aggregate, check_room
from saibot.privatize.assemble import assemble
from saibot.privatize.charging import charge_for, sketch_path
from saibot.privatize.checking import prepare
from saibot.privatize.component import buy_component
from saibot.privatize.noise import NoiseSource, OpenDPNoise
from saibot.privatize.prepare import Grid
from saibot.privatize.read import TableLike
from saibot.privatize.release import NoisyStatistics, choose_grid, release
from saibot.privatize.request import Prepared, Progress, ReleaseRequest
from saibot.privatize.schema import default_bound_squared
from saibot.safe_file import write_safely
from saibot.sketch import Feature, Sketch, read_sketch, write_sketch

_REHEARSED_BITS = 8


@dataclass(frozen=True)
class Released:
    """A sketch, the ledger's entry for it, and whether it had been bought before."""

    sketch: Sketch
    content: bytes = field(repr=False)
    entry: LedgerEntry
    repeated: bool


def privatize(
    table: TableLike,
    request: ReleaseRequest,
    ledger: Ledger,
    *,
    noise: NoiseSource | None = None,
    progress: Progress = lambda stage, part: None,
) -> Released:
    """Privatise a table and charge the ledger; the same request on the same rows returns the same sketch, free of charge."""
    noise = noise or OpenDPNoise()
    ready = prepare(table, request, ledger, progress=progress)
    charge = charge_for(ready, ledger)
    stored = ledger.find(charge)
    if stored is not None and (path := sketch_path(ledger, stored.digest)).is_file():
        content = path.read_bytes()
        sketch = read_sketch(content)
        if sketch.header.simulation == noise.simulated:  # a simulation does not stand in for a release, nor the reverse
            return Released(sketch, content, stored, repeated=True)
    if not ready.bought and not ready.component_plan:
        # Nothing has to be drawn to know the exact sums: an unreadable table is found before it costs anything.
        progress("aggregating", None)
        exact = aggregate(ready.rows, ready.grid, order=request.order)
        entry = ledger.charge(charge)
        noisy = release(exact, ready.plan, noise, most_rows=ready.most_rows, done=_counter(progress, ready.draws))
        rows = ready.rows
    else:
        progress("reading the table", None)
        _rehearse(ready)
        entry = ledger.charge(charge)
        rows = _buy(ready, noise, progress)
        noisy = _draw(replace(ready, rows=rows), noise, progress)
    sketch = assemble(ready, rows, noisy, simulated=noise.simulated, edition=entry.edition)
    content = write_sketch(sketch)
    write_safely(sketch_path(ledger, sketch.digest), content)
    ledger.receipt(entry, sketch.digest)
    return Released(sketch, content, replace(entry, digest=sketch.digest), repeated=False)


def _rehearse(ready: Prepared) -> None:
    """Read every cell as the release will, before that is paid: a table that cannot be read costs nothing.

    What bought bounds will be is not known yet, and does not matter for that. Nothing that is found here is kept.
    """
    columns = [
        column if column.feature else replace(column, feature=Feature(name=column.name, kind="numeric", lower=-1, upper=1))
        for column in ready.rows.columns
    ]
    grid = Grid(_REHEARSED_BITS, default_bound_squared(columns))
    found = aggregate(replace(ready.rows, columns=columns, component=None), grid, order=1)
    check_room(found.rows, ready.grid, ready.request.order)
    if ready.component_plan is not None:
        check_room(found.rows, choose_grid(ready.component_plan, most_rows=ready.most_rows), 2)


def _buy(ready: Prepared, noise: NoiseSource, progress: Progress) -> Rows:
    """Rows with their bought bounds and component filled in."""
    rows = ready.rows
    columns = []
    for column in rows.columns:
        if column.name in ready.bought:
            progress(f"buying bounds of {column.name}", None)
            column = replace(column, feature=bounds.buy_bounds(rows, column, ready.bought[column.name], noise))
        columns.append(column)
    rows = replace(rows, columns=columns)
    if ready.component_plan is not None:
        facts = ready.request.card.component
        assert facts is not None
        progress("buying the principal component", None)
        counter = _counter(progress, 1)
        feature = buy_component(rows, ready.component_plan, facts, noise, most_rows=ready.most_rows, done=counter)
        rows = replace(rows, component=feature)
    return rows


def _draw(ready: Prepared, noise: NoiseSource, progress: Progress) -> NoisyStatistics:
    done = _counter(progress, ready.draws)
    progress("aggregating", None)
    exact = aggregate(ready.rows, ready.grid, order=ready.request.order)
    return release(exact, ready.plan, noise, most_rows=ready.most_rows, done=done)


def _counter(progress: Progress, total: int) -> Callable[[int], None]:
    finished = 0

    def done(more: int) -> None:
        nonlocal finished
        finished += more
        progress("drawing noise", min(finished / max(total, 1), 1.0))

    return done
