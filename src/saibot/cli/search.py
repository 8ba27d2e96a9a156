"""`saibot search`: which published tables make the requester's model better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saibot.cli.connection import PlatformOption
from saibot.cli.pack import DomainIdOption, DomainOption, given_domains
from saibot.cli.platform_search import Asked, search_platform
from saibot.cli.report import ReportOption, check_report, write_report
from saibot.cli.show import JsonOption, number, plural, print_json, print_table, progress

if TYPE_CHECKING:
    from saibot.client import Augmented, Domains, SearchOptions, SearchRequest
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
    steps: Annotated[int, typer.Option(help="Most augmentations to take.", min=1)] = 5,
    confidence: Annotated[float, typer.Option(help="How sure an accepted gain must be, over all candidates.")] = 0.9,
    join: Annotated[
        str,
        typer.Option(
            help="lookup: a provider's value for the key of each row; many-to-many: all pairs of rows with the same key; "
            "many-to-many-unbiased: the one table that both sides are taken to be columns of."
        ),
    ] = "lookup",
    joins: Annotated[bool, typer.Option(help="Whether to join columns.")] = True,
    unions: Annotated[bool, typer.Option(help="Whether to add rows of tables with the same columns.")] = True,
    hops: Annotated[
        bool, typer.Option("--hops", help="Also datasets by another key that a dataset by both keys leads to.")
    ] = False,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Try every combination of joins; for a few candidates only.")
    ] = False,
    rank: Annotated[
        str,
        typer.Option(
            help="usable: by the gain of the private values as they are; potential: of the provider's raw means, as far as "
            "it is sure; expected: by the best guess at the raw means' gain."
        ),
    ] = "usable",
    whole_datasets: Annotated[
        bool, typer.Option("--whole-datasets", help="All features of a dataset are one candidate, scored together.")
    ] = False,
    single: Annotated[bool, typer.Option("--single", help="Take the best one candidate, whatever its bound.")] = False,
    device: Annotated[str, typer.Option(help="Where to sweep: auto, cpu or cuda.")] = "auto",
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
    from saibot.client import SearchOptions
    from saibot.errors import InvalidInput

    if device not in ("auto", "cpu", "cuda"):
        raise InvalidInput(f"--device is auto, cpu or cuda, not {device!r}.")
    if plot is not None and plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InvalidInput(f"--plot writes .png, .svg or .pdf, not {plot.name}.")
    check_report(report_to)
    if corpus is not None and (platform is not None or local or epsilon is not None or slice_of is not None):
        raise InvalidInput("--corpus searches a folder; --platform, --local, --slice and --epsilon go without it.")
    if test is not None and _is_sketch(train) != _is_sketch(test):
        raise InvalidInput("--train and --test are both tables or both sketches.")
    options = SearchOptions(
        most_steps=1 if single else steps,
        confidence=confidence,
        always_first=single,
        join=join,  # type: ignore[arg-type]  # it checks that itself
        joins=joins,
        unions=unions,
        hops=hops,
        rank=rank,  # type: ignore[arg-type]  # it checks that itself
        whole_datasets=whole_datasets,
        shown=max(shown, 50),
        device=device,  # type: ignore[arg-type]  # checked above
    )
    asked = Asked(train, test, target, _keys(key or []), feature or None, card)
    if corpus is not None:
        found, sketches = _search_folder(asked, corpus, options, given_domains(domain, domain_id), exhaustive, json)
    else:
        answer = search_platform(
            asked,
            options,
            platform,
            local=local,
            slice_of=slice_of,
            exhaustive=exhaustive,
            epsilon=epsilon,
            delta=delta,
            wait=wait,
            json=json,
        )
        if answer is None:
            return
        found, sketches = answer, None
    if out is not None:
        found.save(out)
    if plot is not None:
        found.plot(plot)
    if report_to is not None:
        write_report(found.document, report_to)
    if json:
        print_json(found.document)
    else:
        report(found, sketches, shown)
        if report_to is not None:
            typer.echo(f"wrote {report_to}: it opens in any browser, offline")
        _next(found, corpus, out, plot)


def _search_folder(
    asked: Asked, corpus: Path, options: SearchOptions, given: list[KeyDomain], exhaustive: bool, json: bool
) -> tuple[Augmented, int]:
    """Search a folder of packed sketches; what was found, and among how many sketches."""
    from saibot.client import Corpus, Domains, find_augmentation
    from saibot.errors import InvalidInput
    from saibot.search.exhaustive import Exhaustive

    opened = Corpus(corpus)
    if not len(opened):
        raise InvalidInput(f"the corpus {corpus} is empty.", hint=f"`saibot pack {corpus} SKETCH...` adds to it.")
    with progress(quiet=json) as tell:
        tell("reading the request", None)
        request = _request(asked, Domains(opened, given))
        strategy = Exhaustive() if exhaustive else None
        return find_augmentation(request, opened, options, strategy=strategy, progress=tell), len(opened)


def _is_sketch(path: Path) -> bool:
    from saibot.client.request import is_sketch

    return is_sketch(path)


def _keys(texts: list[str]) -> dict[str, str | None]:
    """KEY or KEY=DOMAIN."""
    asked = {}
    for text in texts:
        name, equals, id = text.partition("=")
        asked[name if equals else text] = id if equals else None
    return asked


def _request(asked: Asked, domains: Domains) -> SearchRequest:
    from saibot.client import local_request, private_request
    from saibot.privatize import Card

    common: dict[str, Any] = {"target": asked.target, "features": asked.features, "domains": domains}
    if _is_sketch(asked.train):
        return private_request(asked.train, test=asked.test, keys=list(asked.keys), **common)
    described = Card.read(asked.card) if asked.card is not None else None
    return local_request(asked.train, test=asked.test, keys=asked.keys, card=described, name=asked.train.stem, **common)


def report(found: Augmented, sketches: int | None, shown: int) -> None:
    """What was found, for people; `sketches` is how many there were to choose from, where that is known."""
    document = found.document
    rows = document["rows"]
    held_out = f", {rows['test']:,} held out" if rows["test"] is not None else ""
    kind = "private request (its noise is in every number)" if document["private"] else "local request: exact, nothing sent"
    typer.echo(f"{document['request']}: {rows['train']:,} training rows{held_out}; {kind}")
    for note in found.notes:
        typer.echo(f"  {note}")
    unions = document.get("unions", 0)
    told = f"{plural(document['candidates'] - unions, 'join')} and {plural(unions, 'union')} to choose from"
    typer.echo(f"  {told}" + (f", of {plural(sketches, 'sketch', 'sketches')}" if sketches is not None else ""))
    typer.echo()
    _ranking(found, shown)
    _path(found)
    typer.echo(f"stopped: {document['stopped']}.")
    for dropped in document["dropped"]:
        such = f" ({', '.join(dropped['examples'])})" if dropped["examples"] else ""
        typer.echo(f"not taken: {dropped['count']:,} because {dropped['reason'].removesuffix('.')}{such}")


def _ranking(found: Augmented, shown: int) -> None:
    from saibot.client.augmented import identity
    from saibot.search.document import key_label

    ranked = found.document["ranked"]
    taken = found.taken()
    several = len({key_label(entry["key"]) for entry in ranked}) > 1
    rank = found.document.get("rank", "usable")
    rows = []
    for place, entry in enumerate(ranked[:shown], start=1):
        gain, (low, high) = entry["gain"], entry["interval"]
        if rank == "potential" and entry["potential"] is not None:
            gain, (low, high) = entry["potential"], entry["potential_interval"]
        if rank == "expected" and entry["expected"] is not None:
            gain = entry["expected"]
        signal = "–" if entry["reliability"] is None else f"{entry['reliability']:.0%}"
        rows.append([
            str(place),
            _name(entry),
            key_label(entry["key"]) if several else signal,  # both would not fit a narrow terminal
            f"{gain:+.3f}",
            f"{low:.3f} to {high:.3f}",
            number(entry["coefficient"], 3),
            str(taken.get(identity(entry), "")),
        ])  # fmt: skip
    if rows:
        kind = "gain" if rank == "usable" else f"{rank} gain"
        interval = "usable, 90 %" if rank == "expected" else "90 % interval"
        heads = ["", "candidate", "on" if several else "signal", kind, interval, "slope", "step"]
        right = (0, *(() if several else (2,)), 3, 4, 5, 6)
        order = "the most promising" if rank == "expected" else "the surest"
        print_table(f"candidates by themselves: {kind} in R², {order} first", heads, rows, right=right)
    if rank != "usable":
        by = "guessed" if rank == "expected" else "as far as they are sure"
        typer.echo(f"With the providers' raw means, {by}. The models below use their private values as they are.")


def _name(entry: dict[str, Any]) -> str:
    if entry["kind"] == "union":
        return f"{entry['dataset']} (rows)"
    if entry["feature"] is not None:
        return f"{entry['dataset']}.{entry['feature']}"
    return f"{entry['dataset']} ({', '.join(entry['features'])})"


def _path(found: Augmented) -> None:
    path = found.path()
    held_out = path.test_r2.notna().all()
    rows = []
    for i, step in enumerate(path.itertuples()):
        rows.append([
            "own features" if i == 0 else f"{i}  + {step.column}",
            f"{step.train_r2:.3f}",
            _held_out(step) if held_out else "–",
        ])  # fmt: skip
    print_table("R² step by step", ["model", "training", "held out"], rows, right=(1, 2))


def _held_out(step: Any) -> str:
    """The held-out R² with its interval, or the interval alone where it leaves the number no meaning."""
    from saibot.search.result import UNCLEAR

    if step.test_lower is None or step.test_lower != step.test_lower:
        return f"{step.test_r2:.3f}"
    interval = f"{step.test_lower:.2f} to {step.test_upper:.2f}"
    return f"unclear ({interval})" if step.test_upper - step.test_lower > UNCLEAR else f"{step.test_r2:.3f} ({interval})"


def _next(found: Augmented, corpus: Path | None, out: Path | None, plot: Path | None) -> None:
    if plot is not None:
        typer.echo(f"drew {plot}")
    if out is not None:
        typer.echo(f"wrote {out}")
    if found.document.get("join", "lookup") != "lookup" and found.document["steps"]:
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
