"""`saibot search`: which published tables make the requester's model better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.pack import DomainIdOption, DomainOption, given_domains
from saibot.cli.show import JsonOption, number, print_json, print_table, progress

if TYPE_CHECKING:
    from saibot.client import Augmented, Corpus, Domains, SearchRequest


def add_to(app: typer.Typer) -> None:
    app.command("search")(search)


def search(
    train: Annotated[Path, typer.Option(help="Training table (searched at home, exact) or .saibot sketch (private).")],
    target: Annotated[str, typer.Option(help="The column or feature to explain.")],
    corpus: Annotated[Path, typer.Option(help="Folder of packed sketches.")],
    test: Annotated[Path | None, typer.Option(help="Held-out table or sketch, of the same kind.")] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="Key column of the table, or key of the card; COLUMN=DOMAIN sets its domain.")
    ] = None,
    card: Annotated[Path | None, typer.Option(help="Card of the tables: their keys' domains, their features.")] = None,
    feature: Annotated[
        list[str] | None, typer.Option(help="Own feature. Repeatable. Default: all numeric ones of the card or sketch.")
    ] = None,
    domain: DomainOption = None,
    domain_id: DomainIdOption = None,
    steps: Annotated[int, typer.Option(help="Most augmentations to take.", min=1)] = 5,
    confidence: Annotated[float, typer.Option(help="How sure an accepted gain must be, over all candidates.")] = 0.9,
    joins: Annotated[bool, typer.Option(help="Whether to join columns.")] = True,
    unions: Annotated[bool, typer.Option(help="Whether to add rows of tables with the same columns.")] = True,
    hops: Annotated[
        bool, typer.Option("--hops", help="Also datasets by another key that a dataset by both keys leads to.")
    ] = False,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Try every combination of joins; for a few candidates only.")
    ] = False,
    single: Annotated[bool, typer.Option("--single", help="Take the best one candidate, whatever its bound.")] = False,
    device: Annotated[str, typer.Option(help="Where to sweep: auto, cpu or cuda.")] = "auto",
    shown: Annotated[int, typer.Option(help="Ranked candidates to show.", min=1)] = 10,
    out: Annotated[Path | None, typer.Option(help="Write the result here, for `saibot augment`.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the result: .png, .svg or .pdf.")] = None,
    json: JsonOption = False,
) -> None:
    """Find the published tables that most improve a linear model of TARGET. Costs no budget.

    Tables stay on this machine and are searched exactly; sketches carry their noise and could be sent anywhere.
    """
    from saibot.client import Corpus, Domains, SearchOptions, find_augmentation
    from saibot.errors import InvalidInput
    from saibot.search.exhaustive import Exhaustive

    if device not in ("auto", "cpu", "cuda"):
        raise InvalidInput(f"--device is auto, cpu or cuda, not {device!r}.")
    if plot is not None and plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InvalidInput(f"--plot writes .png, .svg or .pdf, not {plot.name}.")
    opened = Corpus(corpus)
    if not len(opened):
        raise InvalidInput(f"the corpus {corpus} is empty.", hint=f"`saibot pack {corpus} SKETCH...` adds to it.")
    options = SearchOptions(
        most_steps=1 if single else steps,
        confidence=confidence,
        always_first=single,
        joins=joins,
        unions=unions,
        hops=hops,
        shown=max(shown, 50),
        device=device,  # type: ignore[arg-type]  # checked above
    )
    domains = Domains(opened, given_domains(domain, domain_id))
    with progress(quiet=json) as tell:
        tell("reading the request", None)
        request = _request(train, test, target, key or [], feature or None, card, domains)
        strategy = Exhaustive() if exhaustive else None
        found = find_augmentation(request, opened, options, strategy=strategy, progress=tell)
    if out is not None:
        found.save(out)
    if plot is not None:
        found.plot(plot)
    if json:
        print_json(found.document)
    else:
        _report(found, opened, shown)
        _next(found, corpus, out, plot)


def _request(
    train: Path,
    test: Path | None,
    target: str,
    keys: list[str],
    features: list[str] | None,
    card: Path | None,
    domains: Domains,
) -> SearchRequest:
    from saibot.client import local_request, private_request
    from saibot.client.request import is_sketch
    from saibot.errors import InvalidInput
    from saibot.privatize import Card

    if test is not None and is_sketch(train) != is_sketch(test):
        raise InvalidInput("--train and --test are both tables or both sketches.")
    if is_sketch(train):
        return private_request(train, target=target, test=test, features=features, keys=keys, domains=domains)
    described = Card.read(card) if card is not None else None
    asked = {}
    for text in keys:
        name, equals, id = text.partition("=")
        asked[name if equals else text] = id if equals else None
    return local_request(
        train, target=target, keys=asked, test=test, features=features, card=described, domains=domains, name=train.stem
    )


def _report(found: Augmented, corpus: Corpus, shown: int) -> None:
    document = found.document
    rows = document["rows"]
    held_out = f", {rows['test']:,} held out" if rows["test"] is not None else ""
    kind = "private request (its noise is in every number)" if document["private"] else "local request: exact, nothing sent"
    typer.echo(f"{document['request']}: {rows['train']:,} training rows{held_out}; {kind}")
    for note in found.notes:
        typer.echo(f"  {note}")
    typer.echo(f"  {document['candidates']:,} candidates from {len(corpus):,} sketches")
    typer.echo()
    _ranking(found, shown)
    _path(found)
    typer.echo(f"stopped: {document['stopped']}.")
    for dropped in document["dropped"]:
        such = f" ({', '.join(dropped['examples'])})" if dropped["examples"] else ""
        typer.echo(f"not taken: {dropped['count']:,} because {dropped['reason'].removesuffix('.')}{such}")


def _ranking(found: Augmented, shown: int) -> None:
    from rich.markup import escape

    from saibot.client.augmented import identity
    from saibot.search.document import key_label

    ranked = found.document["ranked"]
    taken = found.taken()
    several = len({key_label(entry["key"]) for entry in ranked}) > 1
    rows = []
    for place, entry in enumerate(ranked[:shown], start=1):
        low, high = entry["interval"]
        signal = "–" if entry["reliability"] is None else f"{entry['reliability']:.0%}"
        rows.append([
            str(place),
            escape(f"{entry['dataset']}.{entry['feature']}" if entry["feature"] else entry["dataset"]),
            escape(key_label(entry["key"])) if several else signal,  # both would not fit a narrow terminal
            f"+{entry['gain']:.3f}",
            f"{low:.3f}–{high:.3f}",
            number(entry["coefficient"], 3),
            str(taken.get(identity(entry), "")),
        ])  # fmt: skip
    if rows:
        heads = ["", "candidate", "on" if several else "signal", "gain", "interval", "slope", "step"]
        right = (0, *(() if several else (2,)), 3, 4, 5, 6)
        print_table("candidates by themselves: gain in R², the surest first", heads, rows, right=right)


def _path(found: Augmented) -> None:
    from rich.markup import escape

    path = found.path()
    held_out = path.test_r2.notna().all()
    rows = []
    for i, step in enumerate(path.itertuples()):
        rows.append([
            "own features" if i == 0 else f"{i}  + {escape(step.column)}",
            f"{step.train_r2:.3f}",
            f"{step.test_r2:.3f}" if held_out else "–",
        ])  # fmt: skip
    print_table("R² step by step", ["model", "training", "held out"], rows, right=(1, 2))


def _next(found: Augmented, corpus: Path, out: Path | None, plot: Path | None) -> None:
    if plot is not None:
        typer.echo(f"drew {plot}")
    if out is not None:
        typer.echo(f"wrote {out}")
    if not found.columns:
        typer.echo(
            "next: a finer key, more rows, or sketches with a larger budget; `saibot search --single` shows the best one."
        )
    elif out is None:
        typer.echo(
            "next: repeat with --out result.json, then `saibot augment result.json TABLE` joins the new columns to rows."
        )
    else:
        typer.echo(f"next: `saibot augment {out} TABLE --corpus {corpus} --out FILE` joins the new columns to your rows.")
