"""`saibot search`: which published tables make the requester's model better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saibot.cli.connection import PlatformOption, open_connection
from saibot.cli.pack import DomainIdOption, DomainOption, given_domains
from saibot.cli.platform_search import RequestFlags, search_at_home, search_there
from saibot.cli.report import ReportOption, check_report, write_report
from saibot.cli.search_options import DEFAULT, option_of
from saibot.cli.show import JsonOption, number, plural, print_json, print_table, progress
from saibot.search.rankings import RANKINGS
from saibot.wire import Entry, Measured, Result, SearchOptions

if TYPE_CHECKING:
    from saibot.client import Augmented, Domains, SearchRequest
    from saibot.sketch import KeyDomain


def add_to(app: typer.Typer) -> None:
    app.command("search")(search)


def search(
    train: Annotated[Path, typer.Option(help="Training table (searched at home, exact) or .saibot sketch (private).")],
    target: Annotated[str, typer.Option(help="The column or feature to explain.")],
    platform: PlatformOption = None,
    local: Annotated[
        bool, typer.Option("--local", help="Fetch the platform's corpus and search here: exact, nothing is sent or spent.")
    ] = False,
    corpus: Annotated[Path | None, typer.Option(help="Folder of packed sketches, instead of a platform.")] = None,
    test: Annotated[Path | None, typer.Option(help="Held-out table or sketch, of the same kind.")] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="Key column of the table, or key of the card; COLUMN=DOMAIN sets its domain.")
    ] = None,
    card: Annotated[Path | None, typer.Option(help="Card of the tables: their keys' domains, their features.")] = None,
    feature: Annotated[
        list[str] | None, typer.Option(help="Own feature. Repeatable. Default: all numeric ones of the card or sketch.")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Budget to privatise tables with before they are asked with; charges the ledger.")
    ] = None,
    delta: Annotated[str, typer.Option(help="The delta of that budget.")] = "1e-6",
    slice_of: Annotated[
        str | None, typer.Option("--slice", metavar="DOMAIN", help="With --local: fetch only what has this key domain.")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait for the platform's answer, or leave the search to run there.")] = True,
    domain: DomainOption = None,
    domain_id: DomainIdOption = None,
    steps: Annotated[int, option_of("steps")] = DEFAULT.steps,
    confidence: Annotated[float, option_of("confidence")] = DEFAULT.confidence,
    interval: Annotated[float, option_of("interval")] = DEFAULT.interval,
    join: Annotated[str, option_of("join")] = DEFAULT.join,
    joins: Annotated[bool, option_of("joins")] = DEFAULT.joins,
    unions: Annotated[bool, option_of("unions")] = DEFAULT.unions,
    hops: Annotated[bool, option_of("hops", "--hops")] = DEFAULT.hops,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Try every combination of joins; for a few candidates only.")
    ] = False,
    rank: Annotated[str, option_of("rank")] = DEFAULT.rank,
    whole_datasets: Annotated[bool, option_of("whole_datasets", "--whole-datasets")] = DEFAULT.whole_datasets,
    single: Annotated[bool, option_of("always_first", "--single")] = DEFAULT.always_first,
    device: Annotated[str, option_of("device")] = DEFAULT.device,
    shown: Annotated[int, typer.Option(help="Ranked candidates to show.", min=1)] = 10,
    out: Annotated[Path | None, typer.Option(help="Write the result here, for `saibot augment`.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the result: .png, .svg or .pdf.")] = None,
    report_to: ReportOption = None,
    json: JsonOption = False,
) -> None:
    """Find the published tables that most improve a linear model of TARGET.

    With --local or --corpus, tables stay on this machine and are searched exactly, at no cost. Otherwise sketches go to the
    platform: they carry their noise and anyone may see them. Tables are never sent.
    """
    from saibot.errors import InvalidInput

    if plot is not None and plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InvalidInput(f"--plot writes .png, .svg or .pdf, not {plot.name}.")
    check_report(report_to)
    if corpus is not None and (platform is not None or local or epsilon is not None or slice_of is not None):
        raise InvalidInput("--corpus searches a folder; --platform, --local, --slice and --epsilon go without it.")
    if test is not None and _is_sketch(train) != _is_sketch(test):
        raise InvalidInput("--train and --test are both tables or both sketches.")
    options = SearchOptions(
        steps=1 if single else steps,
        strategy="exhaustive" if exhaustive else "greedy",
        confidence=confidence,
        interval=interval,
        always_first=single,
        join=join,  # type: ignore[arg-type]  # it checks that itself
        joins=joins,
        unions=unions,
        hops=hops,
        rank=rank,
        whole_datasets=whole_datasets,
        shown=max(shown, 50),
        device=device,  # type: ignore[arg-type]  # it checks that itself
    )
    asked = RequestFlags(train, test, target, _keys(key or []), feature or None, card)
    if corpus is not None:
        found, sketches = _search_folder(asked, corpus, options, given_domains(domain, domain_id), json)
    else:
        with open_connection(platform) as opened:
            answer = (
                search_at_home(opened, asked, options, slice_of, json=json)
                if local
                else search_there(opened, asked, options, epsilon=epsilon, delta=delta, wait=wait, json=json)
            )
        if answer is None:
            return
        found, sketches = answer, None
    if out is not None:
        found.save(out)
    if plot is not None:
        found.plot(plot)
    if report_to is not None:
        write_report(found.result, report_to)
    if json:
        print_json(found.result.to_json())
    else:
        report(found, sketches, shown)
        if report_to is not None:
            typer.echo(f"wrote {report_to}: it opens in any browser, offline")
        _next(found, corpus, out, plot)


def _search_folder(
    asked: RequestFlags, corpus: Path, options: SearchOptions, given: list[KeyDomain], json: bool
) -> tuple[Augmented, int]:
    """Search a folder of packed sketches; what was found, and among how many sketches."""
    from saibot.client import Corpus, Domains, find_augmentation
    from saibot.errors import InvalidInput

    opened = Corpus(corpus)
    if not len(opened):
        raise InvalidInput(f"the corpus {corpus} is empty.", hint=f"`saibot pack {corpus} SKETCH...` adds to it.")
    with progress(quiet=json) as tell:
        tell("reading the request", None)
        request = _request(asked, Domains(opened, given))
        return find_augmentation(request, opened, options, progress=tell), len(opened)


def _is_sketch(path: Path) -> bool:
    from saibot.client.sketch_request import is_sketch

    return is_sketch(path)


def _keys(texts: list[str]) -> dict[str, str | None]:
    """KEY or KEY=DOMAIN."""
    asked = {}
    for text in texts:
        name, equals, id = text.partition("=")
        asked[name if equals else text] = id if equals else None
    return asked


def _request(asked: RequestFlags, domains: Domains) -> SearchRequest:
    from saibot.client import local_request, private_request
    from saibot.privatize import Card

    common: dict[str, Any] = {"target": asked.target, "features": asked.features, "domains": domains}
    if _is_sketch(asked.train):
        return private_request(asked.train, test=asked.test, keys=list(asked.keys), **common)
    described = Card.read(asked.card) if asked.card is not None else None
    return local_request(asked.train, test=asked.test, keys=asked.keys, card=described, name=asked.train.stem, **common)


def report(found: Augmented, sketches: int | None, shown: int) -> None:
    """What was found, for people; `sketches` is how many there were to choose from, where that is known."""
    result = found.result
    held_out = f", {result.rows.test:,} held out" if result.rows.test is not None else ""
    kind = "private request (its noise is in every number)" if result.private else "local request: exact, nothing sent"
    typer.echo(f"{result.request}: {result.rows.train:,} training rows{held_out}; {kind}")
    for note in found.notes:
        typer.echo(f"  {note}")
    told = f"{plural(result.candidates - result.unions, 'join')} and {plural(result.unions, 'union')} to choose from"
    typer.echo(f"  {told}" + (f", of {plural(sketches, 'sketch', 'sketches')}" if sketches is not None else ""))
    typer.echo()
    _ranking(result, shown)
    _path(result)
    typer.echo(f"stopped: {result.stopped}.")
    for dropped in result.dropped:
        such = f" ({', '.join(dropped.examples)})" if dropped.examples else ""
        typer.echo(f"not taken: {dropped.count:,} because {dropped.reason.removesuffix('.')}{such}")


def _ranking(result: Result, shown: int) -> None:
    ranked = result.ranked
    taken = result.taken
    several = len({entry.on for entry in ranked}) > 1
    by = RANKINGS.get(result.rank)
    column = by.shows if by is not None else "gain"
    rows = []
    for place, entry in enumerate(ranked[:shown], start=1):
        gain, (low, high) = entry.gain, entry.interval
        if column == "potential" and entry.potential is not None and entry.potential_interval is not None:
            gain, (low, high) = entry.potential, entry.potential_interval
        if column == "expected" and entry.expected is not None:
            gain = entry.expected
        signal = "–" if entry.reliability is None else f"{entry.reliability:.0%}"
        rows.append([
            str(place),
            _name(entry),
            entry.on if several else signal,  # both would not fit a narrow terminal
            f"{gain:+.3f}",
            f"{low:.3f} to {high:.3f}",
            number(entry.coefficient, 3),
            str(taken.get(entry.identity, "")),
        ])  # fmt: skip
    if rows:
        kind = "gain" if column == "gain" else f"{column} gain"
        sure = f"{100 * result.interval_confidence:g} %"
        interval = f"usable, {sure}" if column == "expected" else f"{sure} interval"
        heads = ["", "candidate", "on" if several else "signal", kind, interval, "slope", "step"]
        right = (0, *(() if several else (2,)), 3, 4, 5, 6)
        order = by.first if by is not None else "the surest"
        print_table(f"candidates by themselves: {kind} in R², {order} first", heads, rows, right=right)
    if by is not None and column != "gain":
        typer.echo(f"Ranked by {by.sentence}. The models below use the private values as they are.")


def _name(entry: Entry) -> str:
    if entry.kind == "union":
        return f"{entry.dataset} (rows)"
    return f"{entry.dataset}.{entry.feature}" if entry.feature is not None else f"{entry.dataset} ({entry.what})"


def _path(result: Result) -> None:
    from saibot.client.errors import plain_text

    models = [("own features", result.base), *((f"{i}  + {step.added}", step) for i, step in enumerate(result.steps, 1))]
    held_out = all(model.test_r2 is not None for _, model in models)
    rows = [[name, f"{model.train_r2:.3f}", _held_out(model) if held_out else "–"] for name, model in models]
    print_table("R² step by step", ["model", "training", "held out"], rows, right=(1, 2))
    for i, step in enumerate(result.steps, start=1):
        if step.kind == "join" and step.note:
            typer.echo(f"step {i}: {plain_text(step.note, most=500)}")


def _held_out(model: Measured) -> str:
    """The held-out R² with its interval, or the interval alone where it leaves the number no meaning."""
    if model.test_interval is None:
        return f"{model.test_r2:.3f}"
    low, high = model.test_interval
    interval = f"{low:.2f} to {high:.2f}"
    return f"unclear ({interval})" if model.unclear else f"{model.test_r2:.3f} ({interval})"


def _next(found: Augmented, corpus: Path | None, out: Path | None, plot: Path | None) -> None:
    if plot is not None:
        typer.echo(f"drew {plot}")
    if out is not None:
        typer.echo(f"wrote {out}")
    if found.result.join != "lookup" and found.result.steps:
        typer.echo("next: ask the providers for rows; or search with --join lookup for values that join without them.")
    elif not found.columns:
        typer.echo(
            "next: a finer key, more rows, or sketches with a larger budget; `saibot search --single` shows the best one."
        )
    elif out is None:
        typer.echo(
            "next: repeat with --out result.json, then `saibot augment result.json TABLE` joins the new columns to rows."
        )
    else:
        where = f" --corpus {corpus}" if corpus is not None else ""
        typer.echo(f"next: `saibot augment {out} TABLE{where} --out FILE` joins the new columns to your rows.")
