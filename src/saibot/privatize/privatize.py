"""From a table to a sketch: all steps, in the order that privacy needs.

Everything that can be wrong is found before anything is spent. The ledger is charged before the first draw of noise. The
sketch is on disk before its receipt is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from saibot.errors import InvalidInput, SaibotError
from saibot.privacy.account import LedgerEntry
from saibot.privacy.ledger import Ledger
from saibot.privacy.mechanisms.found_keys import FindingPlan
from saibot.privatize import bounds
from saibot.privatize.aggregate import ExactStatistics, Rows, aggregate, check_room
from saibot.privatize.assemble import assemble
from saibot.privatize.charging import charge_for, recorded_share, release_identity, sketch_path
from saibot.privatize.checking import prepare, resolve, with_found_keys
from saibot.privatize.component import buy_components
from saibot.privatize.doubts import Doubt, doubts, go_on
from saibot.privatize.grid import Grid
from saibot.privatize.key_search import find_keys
from saibot.privatize.known_rows import samples_of
from saibot.privatize.noise import NoiseSource, OpenDPNoise
from saibot.privatize.read import TableLike
from saibot.privatize.release import NoisyStatistics, choose_grid, release
from saibot.privatize.release_request import Prepared, Progress, ReleaseRequest, Resolved
from saibot.privatize.schema import default_bound_squared
from saibot.safe_file import write_safely
from saibot.sketch import Feature, Sketch, read_sketch, write_sketch

_REHEARSED_BITS = 8


@dataclass(frozen=True)
class Released:
    """A sketch, the ledger's entry for it, and whether it had been bought before.

    `notes` are sentences for the provider's own screen. They may tell something about the rows: they go nowhere else.
    """

    sketch: Sketch
    content: bytes = field(repr=False)
    entry: LedgerEntry
    repeated: bool
    notes: tuple[str, ...] = field(default=(), repr=False)


def privatize(
    table: TableLike,
    request: ReleaseRequest,
    ledger: Ledger,
    *,
    noise: NoiseSource | None = None,
    progress: Progress = lambda stage, part: None,
    ask: Callable[[Doubt], bool] = go_on,
) -> Released:
    """Privatise a table and charge the ledger. The same request again returns the same sketch, free of charge.

    Whether it is the same depends on the request alone. If the table has changed since, `notes` say so, and `new_version`
    releases it again, at its price, changed or not. `ask` is asked before anything is charged where something about the rows
    looks wrong; the provider may say no, and nothing has happened. `yes` in the request answers for it.
    """
    noise = noise or OpenDPNoise()
    resolved = resolve(request)
    if not request.new_version and (bought := stored(resolved, ledger, simulated=noise.simulated)) is not None:
        return replace(bought, notes=_since_then(table, request, ledger, bought.entry, progress))
    ready = prepare(table, request, ledger, progress=progress)
    share, as_written = recorded_share(table, request, ledger)
    charge = charge_for(ready, resolved, ledger, share)
    ledger.check(charge)
    found = _read(ready, progress)
    progress("looking for known rows", None)
    samples = samples_of(
        ready.rows.source,
        ledger,
        rows=found.rows,
        numbers=[column.column for column in ready.rows.columns if column.facts.levels is None],
        others=[column.column for column in ready.rows.columns] + [part.column for part in ready.rows.key_parts],
        id=ready.rows.id_column,
    )
    notes = doubts(ready, charge, ledger, found, samples, as_written)
    if resolved.key is not None and resolved.key.to_find is not None and ready.rows.key is not None and not ready.finding:
        listed = ready.rows.key.parts[0].domain
        notes.append(
            Doubt(f"{listed.id} was found on this machine before: its {len(listed):,} keys are used, and cost nothing.")
        )
    for doubt in notes:
        if (doubt.asked or doubt.wasteful) and not request.yes and not ask(doubt):
            raise InvalidInput(
                f"{doubt.text} Nothing was charged.", hint="Mend the card, or say --yes to release it as it is."
            )
    entry = ledger.charge(charge)
    standing = ledger.standing(charge.account, entry) if request.model == "central" else None
    ledger.remember(samples, account=charge.account, split=share.split if share else None)
    if ready.finding is not None:
        ready = _found(ready, ready.finding, ledger, noise, progress)
    rows, told = ready.rows, tuple[str, ...]()
    if ready.buys_nothing:
        noisy = release(found, ready.plan, noise, most_rows=ready.most_rows, done=_counter(progress, ready.draws))
    else:
        rows, told = _buy(ready, noise, progress)
        noisy = _draw(replace(ready, rows=rows), noise, progress)
    sketch = assemble(ready, rows, noisy, simulated=noise.simulated, edition=entry.edition, standing=standing)
    content = write_sketch(sketch)
    write_safely(sketch_path(ledger, sketch.digest), content)
    ledger.receipt(entry, sketch.digest)
    done = replace(entry, digest=sketch.digest)
    return Released(sketch, content, done, repeated=False, notes=(*(doubt.text for doubt in notes), *told))


def stored(resolved: Resolved, ledger: Ledger, *, simulated: bool) -> Released | None:
    """What this very request bought before, if its sketch is still there."""
    entry = ledger.find(resolved.request.card.dataset.name, release_identity(resolved, ledger))
    if entry is None or not (path := sketch_path(ledger, entry.digest)).is_file():
        return None
    content = path.read_bytes()
    sketch = read_sketch(content)
    if sketch.header.simulation != simulated:  # a simulation does not stand in for a release, nor the reverse
        return None
    return Released(sketch, content, entry, repeated=True)


def _since_then(
    table: TableLike, request: ReleaseRequest, ledger: Ledger, entry: LedgerEntry, progress: Progress
) -> tuple[str, ...]:
    """What the provider may want to know about a table whose sketch is handed out again."""
    try:
        ready = prepare(table, request, ledger, progress=progress)
    except SaibotError as problem:
        return (f"the table itself cannot be released as it is now: {problem}",)
    if not ledger.changed(ready.source, dataset=request.card.dataset.name, entry=entry):
        return ()
    return ("the table is another one than this sketch was made from; --new-version releases it, and is charged.",)


def _read(ready: Prepared, progress: Progress) -> ExactStatistics:
    """Read every cell as the release will, before that is paid: a table that cannot be read costs nothing.

    These are the sums that get noise, unless bounds or a component have to be bought first. What those will be does not
    matter for reading, so then stand-ins serve, and of what is found nothing goes into the sketch.
    """
    if ready.buys_nothing:
        progress("aggregating", None)
        return aggregate(ready.rows, ready.grid, order=ready.request.order)
    progress("reading the table", None)
    columns = [
        column if column.feature else replace(column, feature=Feature(name=column.name, kind="numeric", lower=-1, upper=1))
        for column in ready.rows.columns
    ]
    grid = Grid(_REHEARSED_BITS, default_bound_squared(columns))
    found = aggregate(replace(ready.rows, columns=columns, components=()), grid, order=1)
    check_room(found.rows, ready.grid, ready.request.order)
    if ready.component_plan is not None:
        check_room(found.rows, choose_grid(ready.component_plan, most_rows=ready.most_rows), 2)
    return found


def _found(ready: Prepared, plan: FindingPlan, ledger: Ledger, noise: NoiseSource, progress: Progress) -> Prepared:
    """The release with the keys that are found in its rows."""
    part = ready.rows.key.to_find if ready.rows.key else None
    assert part is not None
    progress(f"finding keys of {part.name}", None)
    return with_found_keys(ready, find_keys(ready.rows, part, plan, noise, ledger.home))


def _buy(ready: Prepared, noise: NoiseSource, progress: Progress) -> tuple[Rows, tuple[str, ...]]:
    """Rows with their bought bounds and component filled in, and what the provider is told about them."""
    rows, request = ready.rows, ready.request
    columns, told = [], []
    for column in rows.columns:
        if column.name in ready.bought:
            progress(f"buying bounds of {column.name}", None)
            price = ready.bought[column.name]
            bought = bounds.buy_bounds(rows, column, price, request.budget, request.neighbours, noise)
            column = replace(column, feature=bought.feature)
            told += [bought.told] if bought.told else []
        columns.append(column)
    rows = replace(rows, columns=columns)
    if ready.component_plan is not None:
        facts = request.card.component
        assert facts is not None
        progress("buying principal components", None)
        counter = _counter(progress, 1)
        found = buy_components(rows, ready.component_plan, facts, noise, most_rows=ready.most_rows, done=counter)
        rows = replace(rows, components=found)
    return rows, tuple(told)


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
