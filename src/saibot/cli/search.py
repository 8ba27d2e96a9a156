"""`saibot search`: which published tables make the requester's model better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saibot.cli.connection import PlatformOption, open_connection
from saibot.cli.pack import DomainIdOption, DomainOption, given_domains
from saibot.cli.platform_search import RequestFlags, search_at_home, search_there
from saibot.cli.report import ReportOption, check_outputs
from saibot.cli.search_options import DEFAULT, option_of
from saibot.cli.show import JsonOption, print_json, progress, say
from saibot.report.terminal import show_result
from saibot.wire import SearchOptions

if TYPE_CHECKING:
    from saibot.client import Augmented, Domains, SearchRequest
    from saibot.errors import SaibotError
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
        list[str] | None,
        typer.Option(help="Own feature. Repeatable. Default: all of the card or sketch, or all usable columns."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="linear|gbm|forest", help="At home: what the target is modelled with. Python takes any estimator."
        ),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(metavar="gaussian|binomial|poisson", help="At home: the target is any number, 0 or 1, or a count."),
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Budget to privatise tables with before they are asked with; charges the ledger.")
    ] = None,
    delta: Annotated[str, typer.Option(help="The delta of that budget.")] = "1e-6",
    slice_of: Annotated[
        str | None, typer.Option("--slice", metavar="DOMAIN", help="With --local: fetch only what has this key domain.")
    ] = None,
    provider: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only datasets of this provider: an account of the platform; with --corpus, the fingerprint of a key. "
            "Repeatable.",
        ),
    ] = None,
    verified: Annotated[bool, option_of("verified", "--verified")] = DEFAULT.verified,
    account: Annotated[
        str | None,
        typer.Option(
            help="With --local: the account you publish with, so that your own sketches improve nothing that you are "
            "judged by. Default: the one that is logged in.",
        ),
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
    shared: Annotated[bool, option_of("shared", "--shared")] = DEFAULT.shared,
    hops: Annotated[bool, option_of("hops", "--hops")] = DEFAULT.hops,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Try every combination of joins; for a few candidates only.")
    ] = False,
    rank: Annotated[str, option_of("rank")] = DEFAULT.rank,
    gain: Annotated[str, option_of("gain")] = DEFAULT.gain,
    whole_datasets: Annotated[bool, option_of("whole_datasets", "--whole-datasets")] = DEFAULT.whole_datasets,
    single: Annotated[bool, option_of("always_first", "--single")] = DEFAULT.always_first,
    engine: Annotated[str, option_of("engine")] = DEFAULT.engine,
    master: Annotated[str | None, option_of("master")] = DEFAULT.master,
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

    check_outputs(report=report_to, picture=plot)
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
        shared=shared,
        hops=hops,
        rank=rank,
        gain=gain,  # type: ignore[arg-type]  # it checks that itself
        whole_datasets=whole_datasets,
        shown=max(shown, 50),
        providers=tuple(provider or ()),
        verified=verified,
        engine=engine,  # type: ignore[arg-type]  # it checks that itself
        master=master,
    )
    asked = RequestFlags(train, test, target, _keys(key or []), feature or None, card, model, family)
    if (
        local and joins and not key and not _is_sketch(train)
    ):  # told before anything is fetched, which must not depend on rows
        raise _no_key("`saibot domains list` shows what published tables are joined by.")
    if corpus is not None:
        found, sketches = _search_folder(asked, corpus, options, given_domains(domain, domain_id), json)
    else:
        with open_connection(platform) as opened:
            answer = (
                search_at_home(opened, asked, options, slice_of, account=account, json=json)
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
        found.report(report_to)
    if json:
        print_json(found.result.to_json())
    else:
        show_result(found.result, sketches=sketches, shown=shown)
        if report_to is not None:
            say(f"wrote {report_to}: it opens in any browser, offline")
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
        domains = Domains(opened, given)
        if options.joins and not asked.keys and not _is_sketch(asked.train):
            from saibot.client.exact_request import key_columns

            fit = key_columns(asked.train, domains, asked.target)
            raise _no_key(f"These fit: {'; '.join(fit[:5])}." if fit else "No column holds keys that the corpus knows.")
        request = _request(asked, domains)
        return find_augmentation(request, opened, options, progress=tell), len(opened)


def _no_key(which: str) -> SaibotError:
    from saibot.errors import InvalidInput

    hint = f"Name a column with --key. {which} To look for more rows alone: --no-joins."
    return InvalidInput("no key was named, so nothing can be joined.", hint=hint)


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
    from saibot.errors import InvalidInput
    from saibot.privatize import Card

    common: dict[str, Any] = {"target": asked.target, "features": asked.features, "domains": domains}
    if _is_sketch(asked.train):
        if asked.model is not None or asked.family is not None:
            raise InvalidInput(
                "--model and --family are fitted to rows; a sketch has none: least squares answers.",
                hint="From sketches it ranks a yes or no and a count alike; or search with the table.",
            )
        return private_request(asked.train, test=asked.test, keys=list(asked.keys), **common)
    described = Card.read(asked.card) if asked.card is not None else None
    common |= {"card": described, "model": asked.model, "family": asked.family, "name": asked.train.stem}
    return local_request(asked.train, test=asked.test, keys=asked.keys, **common)


def _next(found: Augmented, corpus: Path | None, out: Path | None, plot: Path | None) -> None:
    if plot is not None:
        say(f"drew {plot}")
    if out is not None:
        say(f"wrote {out}")
    if found.result.join != "lookup" and found.result.steps:
        say("next: ask the providers for rows; or search with --join lookup for values that join without them.")
    elif not found.columns:
        say("next: a finer key, more rows, or sketches with a larger budget; `saibot search --single` shows the best one.")
    elif out is None:
        say("next: repeat with --out result.json, then `saibot augment result.json TABLE` joins the new columns to rows.")
    else:
        where = f" --corpus {corpus}" if corpus is not None else ""
        say(f"next: `saibot augment {out} TABLE{where} --out FILE` joins the new columns to your rows.")
