"""From a table to a sketch: all steps, in the order that privacy needs.

Everything that can be wrong is found before anything is spent. The ledger is charged before the first draw of noise. The
sketch is on disk before its receipt is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from saibot.errors import InvalidInput, SaibotError
from saibot.privacy.account import Charge, LedgerEntry
from saibot.privacy.ledger import Ledger
from saibot.privacy.samples import Sample
from saibot.privatize import bounds
from saibot.privatize.aggregate import ExactStatistics, Rows, aggregate, check_room
from saibot.privatize.assemble import assemble
from saibot.privatize.charging import (
    charge_for,
    charges_of,
    count_charge,
    keep_sketches,
    kept_sketches,
    recorded_share,
    release_identity,
)
from saibot.privatize.checking import prepare_together, resolve, with_found_keys
from saibot.privatize.component import buy_components
from saibot.privatize.coverage import KeyCoverage, buy_coverage, price_in_words
from saibot.privatize.doubts import Doubt, doubts, go_on
from saibot.privatize.grid import Grid
from saibot.privatize.key_search import find_keys
from saibot.privatize.known_rows import samples_of
from saibot.privatize.noise import ExactNoise, NoiseSource
from saibot.privatize.read import TableLike
from saibot.privatize.release import choose_grid, release
from saibot.privatize.release_request import Prepared, Progress, ReleaseRequest, Resolved
from saibot.privatize.schema import default_bound_squared
from saibot.privatize.tuning import note_coverage, tuned_fields, tuning_doubt
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
    return _release(table, (request,), ledger, noise or ExactNoise(), progress, ask)[0]


def privatize_by_keys(
    table: TableLike,
    request: ReleaseRequest,
    keys: Sequence[str],
    ledger: Ledger,
    *,
    noise: NoiseSource | None = None,
    progress: Progress = lambda stage, part: None,
    ask: Callable[[Doubt], bool] = go_on,
) -> tuple[Released, ...]:
    """Privatise a table by several keys in one go: one charge of the request's budget, one sketch for each key.

    What is bought (bounds, a component) is bought once, and the rest is divided between the keys by one plan. All sketches
    are kept before the ledger notes that they are: there are all of them, or none.
    """
    return _release(table, by_keys(request, keys), ledger, noise or ExactNoise(), progress, ask)


def by_keys(request: ReleaseRequest, keys: Sequence[str]) -> tuple[ReleaseRequest, ...]:
    """A request for each key."""
    if len(set(keys)) < max(len(keys), 1) or request.key is not None:
        raise InvalidInput("a release by several keys names each of them once.", hint="Give them with --keys, as in a,b,c.")
    return tuple(replace(request, key=key) for key in keys)


def _release(
    table: TableLike,
    requests: Sequence[ReleaseRequest],
    ledger: Ledger,
    noise: NoiseSource,
    progress: Progress,
    ask: Callable[[Doubt], bool],
) -> tuple[Released, ...]:
    """One charge, and a sketch for each of the requests, which differ in their key only."""
    request = requests[0]
    resolved = [resolve(one) for one in requests]
    if not request.new_version and (bought := stored(resolved, ledger, simulated=noise.simulated)) is not None:
        since = _since_then(table, requests, ledger, bought[0].entry, progress)
        return (replace(bought[0], notes=since), *bought[1:])
    parts = prepare_together(table, requests, ledger, progress=progress)
    share, as_written = recorded_share(table, request, ledger)
    charge = charge_for(parts, resolved, ledger, share)
    ledger.check(*charges_of(parts, resolved, ledger, share))
    found = [_read(ready, progress) for ready in parts]
    progress("looking for known rows", None)
    samples = samples_in(parts, ledger, found[0].rows)
    notes = _doubts(parts, charge, ledger, found, samples, as_written)
    changed = tuned_fields(request.card, charge.account, ledger)
    if changed:
        notes.append(tuning_doubt(changed))
    for doubt in notes:
        if (doubt.asked or doubt.wasteful) and not request.yes and not ask(doubt):
            raise InvalidInput(
                f"{doubt.text} Nothing was charged.", hint="Mend the card, or say --yes to release it as it is."
            )
    covered = _coverage(parts, charge, found, noise, ledger, ask)
    entry = ledger.charge(charge)
    standing = ledger.standing(charge.account, entry) if request.model == "central" else None
    ledger.remember(samples, account=charge.account, split=share.split if share else None)
    parts = tuple(_found(ready, ledger, noise, progress) for ready in parts)
    shared, told = bought_rows(parts[0], noise, progress)
    sketches = []
    for ready, exact, count in zip(parts, found, covered, strict=True):
        rows = replace(ready.rows, columns=shared.columns, components=shared.components)
        if not ready.buys_nothing:
            progress("aggregating", None)
            exact = aggregate(rows, ready.grid, order=request.order)
        noisy = release(exact, ready.plan, noise, most_rows=ready.most_rows, done=_counter(progress, ready.draws))
        sketches.append(
            assemble(
                ready,
                rows,
                noisy,
                simulated=noise.simulated,
                edition=entry.edition,
                standing=standing,
                covered=count,
                tuned=changed,
                together=[one.key for one in requests if one.key],
            )
        )
    contents = {sketch.digest: write_sketch(sketch) for sketch in sketches}
    digest = keep_sketches(ledger, contents)
    ledger.receipt(entry, digest)
    done = replace(entry, digest=digest)
    said = (*(doubt.text for doubt in notes), *told)
    released = [Released(sketch, contents[sketch.digest], done, repeated=False) for sketch in sketches]
    return (replace(released[0], notes=said), *released[1:])


def samples_in(parts: Sequence[Prepared], ledger: Ledger, rows: int) -> list[Sample]:
    """What the rows look like, to recognise them; whichever keys they are released by."""
    first = parts[0].rows
    columns = [column.column for column in first.columns]
    return samples_of(
        first.source,
        ledger,
        rows=rows,
        numbers=[column.column for column in first.columns if column.facts.levels is None],
        others=columns + list(dict.fromkeys(part.column for ready in parts for part in ready.rows.key_parts)),
        id=first.id_column,
    )


def _doubts(
    parts: Sequence[Prepared],
    charge: Charge,
    ledger: Ledger,
    found: Sequence[ExactStatistics],
    samples: Sequence[Sample],
    as_written: bytes | None,
) -> list[Doubt]:
    """What the provider should hear, each thing once."""
    said: dict[str, Doubt] = {}
    for ready, exact in zip(parts, found, strict=True):
        for doubt in doubts(ready, charge, ledger, exact, samples, as_written):
            said.setdefault(doubt.text, doubt)
    return list(said.values())


def stored(resolved: Sequence[Resolved], ledger: Ledger, *, simulated: bool) -> tuple[Released, ...] | None:
    """What this very request bought before, if its sketches are still there."""
    entry = ledger.find(resolved[0].request.card.dataset.name, release_identity(ledger, *resolved))
    contents = None if entry is None else kept_sketches(ledger, entry.digest)
    if entry is None or contents is None or len(contents) != len(resolved):
        return None
    released = tuple(Released(read_sketch(content), content, entry, repeated=True) for content in contents)
    # A simulation does not stand in for a release, nor the reverse.
    return released if all(one.sketch.header.simulation == simulated for one in released) else None


def _since_then(
    table: TableLike, requests: Sequence[ReleaseRequest], ledger: Ledger, entry: LedgerEntry, progress: Progress
) -> tuple[str, ...]:
    """What the provider may want to know about a table whose sketch is handed out again."""
    try:
        ready = prepare_together(table, requests, ledger, progress=progress)[0]
    except SaibotError as problem:
        return (f"the table itself cannot be released as it is now: {problem}",)
    if not ledger.changed(ready.source, dataset=requests[0].card.dataset.name, entry=entry):
        return ()
    return ("the table is another one than this sketch was made from; --new-version releases it, and is charged.",)


def _coverage(
    parts: Sequence[Prepared],
    charge: Charge,
    found: Sequence[ExactStatistics],
    noise: NoiseSource,
    ledger: Ledger,
    ask: Callable[[Doubt], bool],
) -> list[KeyCoverage | None]:
    """The bought share of rows with a key of the domain, for each key that it is asked for.

    All charges of the release were admitted together. The counts are taken one after the other: too low a one ends the
    release, and what would have come after it is not charged.
    """
    covered: list[KeyCoverage | None] = []
    for ready, exact in zip(parts, found, strict=True):
        first = count_charge(ready, charge, ledger)
        if first is None or ready.coverage is None:
            covered.append(None)
            continue
        bought = buy_coverage(first, exact, ready.row_count, noise, ledger, anew=ready.request.new_version)
        note_coverage(ready.request.card, charge.account, ledger)
        covered.append(bought)
        if bought.low and not ready.request.yes:
            words = bought.in_words() if len(parts) == 1 else f"by {ready.request.key}, {bought.in_words()}"
            if not ask(Doubt(f"{words}: nearly all that is paid for would be noise.", wasteful=True)):
                price = price_in_words(ready.coverage, charge.asked)
                many = sum(count is not None for count in covered)
                paid = "That count alone was" if many == 1 else f"{many} such counts were"
                raise InvalidInput(
                    f"{words}. {paid} charged ({price}{' each' if many > 1 else ''}).",
                    hint="Take the vocabulary that the keys are of, or say --yes to release it as it is.",
                )
    return covered


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


def _found(ready: Prepared, ledger: Ledger, noise: NoiseSource, progress: Progress) -> Prepared:
    """The release with the keys that are found in its rows, where they have to be."""
    part = ready.rows.key.to_find if ready.rows.key else None
    if ready.finding is None or part is None:
        return ready
    progress(f"finding keys of {part.name}", None)
    return with_found_keys(ready, find_keys(ready.rows, part, ready.finding, noise, ledger.home))


def bought_rows(ready: Prepared, noise: NoiseSource, progress: Progress) -> tuple[Rows, tuple[str, ...]]:
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


def _counter(progress: Progress, total: int) -> Callable[[int], None]:
    finished = 0

    def done(more: int) -> None:
        nonlocal finished
        finished += more
        progress("drawing noise", min(finished / max(total, 1), 1.0))

    return done
