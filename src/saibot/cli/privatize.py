"""`saibot privatize`: a table becomes a sketch, and the ledger is charged for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from saibot.cli import options
from saibot.cli.home import open_ledger
from saibot.cli.plan import show_bounds, show_finding, show_plan
from saibot.cli.show import JsonOption, ask_provider, print_json, progress, say
from saibot.cli.terms import ReleaseTerms, TermsCommand, with_terms
from saibot.report.format import number

if TYPE_CHECKING:
    from saibot.privatize import Card, Released, ReleaseRequest
    from saibot.privatize.read import TableLike


def add_to(app: typer.Typer) -> None:
    app.command("privatize", cls=TermsCommand)(privatize)


@with_terms
def privatize(
    table: Annotated[Path, typer.Argument(help="CSV, Parquet or Arrow file; with --database, a table's name.")],
    card: Annotated[Path | None, typer.Option(help="Dataset card (TOML). Default: beside the table.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Key of the card to group by; without one, the sketch is for unions.")
    ] = None,
    keys: Annotated[
        str | None, typer.Option(help="Several keys with commas, a,b,c: a sketch by each, all for the one budget.")
    ] = None,
    feature: Annotated[
        list[str] | None, typer.Option(help="Feature of the card, or NAME=LOWER:UPPER with public bounds. Repeatable.")
    ] = None,
    *,
    terms: ReleaseTerms,
    prepare: Annotated[
        str, typer.Option(help="card, or paper (the paper's preparation: NOT private, and marked so).")
    ] = "card",
    backend: Annotated[str, typer.Option(help="Engine that aggregates: duckdb, polars, postgres or spark.")] = "duckdb",
    database: Annotated[
        str | None,
        typer.Option(
            help="Where TABLE is, postgresql://... or duckdb:///FILE: summed there; read through here once, for the ledger."
        ),
    ] = None,
    new_version: Annotated[
        bool, typer.Option(help="Release a new edition, drawn and charged anew, whether the rows have changed or not.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Go on where you would be asked about your rows.")] = False,
    part: Annotated[
        str | None,
        typer.Option(help="train or test: this is that part of a private request, called NAME-train, without key levels."),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="With --part: the split that `saibot split` recorded, if the part was moved since."),
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Check everything and show the plan; charge and release nothing.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the sketch; with --keys, a folder. Default: NAME-KEY.saibot here.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Privatise TABLE into a sketch, charging this machine's ledger first."""
    from saibot.client.privatizing import check_read
    from saibot.errors import InvalidInput
    from saibot.privatize import ReleaseRequest

    budget = terms.budget
    check_read(terms.order)
    if prepare not in ("card", "paper"):
        raise InvalidInput(f"--prepare is card or paper, not {prepare!r}.")
    described, chosen = _card(table, card, feature or [], in_database=database is not None)
    source = _source(table, database, backend)
    which: Literal["train", "test"] | None = None
    if part is not None:
        if part not in ("train", "test"):
            raise InvalidInput(f"--part is train or test, not {part!r}.")
        which = "train" if part == "train" else "test"
        described = described.for_request(which)
    elif split is not None:
        raise InvalidInput("--split goes with --part.", hint="Say which part of the split this is: train or test.")
    request = ReleaseRequest(
        card=described,
        budget=budget,
        neighbours=options.neighbours(terms.neighbours, described.dataset.neighbours),
        key=key,
        features=chosen,
        **terms.of_release,
        paper_preparation=prepare == "paper",
        new_version=new_version,
        yes=yes,
        part=which,
        split=split,
        backend=backend,
    )
    if keys is not None:
        if key is not None:
            raise InvalidInput("--key and --keys exclude each other.", hint="Name all keys with --keys.")
        _by_several(source, request, [name.strip() for name in keys.split(",")], out, dry_run=dry_run, json=json)
    elif dry_run:
        _rehearsed(source, request, json=json)
    else:
        _by_one(source, request, out, json=json)


def _by_one(table: TableLike, request: ReleaseRequest, out: Path | None, *, json: bool) -> None:
    from saibot.privatize import privatize

    path = out or _usual_path(request, request.key)
    with progress(quiet=json) as tell:
        released = privatize(table, request, open_ledger(), progress=tell, ask=ask_provider)
    _write_all({path: released.content})
    _say_notes(released)
    if json:
        print_json(_document(released, path))
    else:
        _report(released, path)
        _say_cost(released, path)


def _by_several(
    table: TableLike, request: ReleaseRequest, keys: list[str], out: Path | None, *, dry_run: bool, json: bool
) -> None:
    """One release by several keys: one charge, and a file for each key, or none."""
    from saibot.privatize import dry_run_by_keys, privatize_by_keys

    if dry_run:
        with progress(quiet=json) as tell:
            found = dry_run_by_keys(table, request, keys, open_ledger(), progress=tell)
        if json:
            print_json(found.to_json())
            return
        for part in found.parts:
            say(f"by {part.request.key}, with a share of {number(float(part.plan.request.share), 3)}:")
            show_plan(part.plan)
            show_finding(part.finding)
        show_bounds(found.parts[0].bought, found.parts[0].plan)
        _say_what_it_would_be(found.repeated, sum(part.draws for part in found.parts), request)
        return
    with progress(quiet=json) as tell:
        released = privatize_by_keys(table, request, keys, open_ledger(), progress=tell, ask=ask_provider)
    folder = out or Path()
    paths = [folder / _usual_path(request, key) for key in keys]
    _write_all({path: one.content for path, one in zip(paths, released, strict=True)})
    _say_notes(released[0])
    if json:
        documents = [_document(one, path) for one, path in zip(released, paths, strict=True)]
        shared = ("repeated", "charged", "ledger_entry")
        sketches = [{name: value for name, value in one.items() if name not in shared} for one in documents]
        print_json({"sketches": sketches} | {name: documents[0][name] for name in shared})
        return
    for one, path in zip(released, paths, strict=True):
        _report(one, path)
    _say_cost(released[0], paths[0])


def _rehearsed(table: TableLike, request: ReleaseRequest, *, json: bool) -> None:
    from saibot.privatize import dry_run

    with progress(quiet=json) as tell:
        found = dry_run(table, request, open_ledger(), progress=tell)
    if json:
        print_json(found.to_json())
        return
    show_plan(found.plan)
    show_finding(found.ready.finding)
    show_bounds(found.ready.bought, found.plan)
    _say_what_it_would_be(found.repeated, found.values, request)


def _say_what_it_would_be(repeated: bool, values: int, request: ReleaseRequest) -> None:
    would = f"would draw noise for {values:,} numbers and charge {request.budget}"
    if repeated:
        would = "this very release was bought before: it would be the same sketch, at no further cost"
    say(f"{would}; nothing was charged or released.")


def _usual_path(request: ReleaseRequest, key: str | None) -> Path:
    from saibot.sketch import SUFFIX

    return Path(request.card.dataset.name + (f"-{key}" if key else "") + SUFFIX)


def _write_all(contents: dict[Path, bytes]) -> None:
    """All of the files, or none of them: they take their places once every one is written."""
    from contextlib import ExitStack

    from saibot.safe_file import writing

    new = [path for path in contents if not path.exists()]
    try:
        with ExitStack() as stack:
            for path, content in contents.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(writing(path)).write_bytes(content)
    except BaseException:
        for path in new:
            path.unlink(missing_ok=True)
        raise


def _say_notes(released: Released) -> None:
    for note in released.notes:
        say(f"note: {note}", err=True)


def _source(table: Path, database: str | None, backend: str) -> TableLike:
    if database is None:
        return table
    from saibot.privatize.engines import table_in

    return table_in(database, str(table), backend)


def _card(table: Path, card: Path | None, features: list[str], *, in_database: bool) -> tuple[Card, tuple[str, ...]]:
    from saibot.errors import InvalidInput

    if in_database:
        if card is None:
            raise InvalidInput("a table of a database has no card beside it.", hint="Give one with --card.")
        return chosen_features(card, features)
    if not table.exists():
        raise InvalidInput(f"there is no table {table}.", hint="Give the path of a CSV, Parquet or Arrow file.")
    return chosen_features(card or table.with_name(table.name.split(".")[0] + ".toml"), features)


def chosen_features(card: Path, features: list[str]) -> tuple[Card, tuple[str, ...]]:
    """The card, with `--feature NAME=LOWER:UPPER` written into it, and the names of the features."""
    from saibot.errors import InvalidInput
    from saibot.privatize import Card

    described = Card.read(card)
    document = described.model_dump(mode="json", exclude_unset=True)
    chosen = []
    for text in features:
        name, equals, limits = text.partition("=")
        if equals and name not in described.features and text in described.features:
            name, equals = text, ""
        chosen.append(name)
        if equals:
            try:
                lower, upper = (float(part) for part in limits.split(":"))
            except ValueError:
                raise InvalidInput(f"--feature {text} is not NAME=LOWER:UPPER, such as delay=-30:120.") from None
            facts = document["features"].setdefault(name, {})
            facts.pop("levels", None)
            facts["bounds"] = [lower, upper]
    return Card.parse(document, folder=described.folder), tuple(chosen)


def _document(released: Released, path: Path) -> dict[str, Any]:
    sketch = released.sketch
    return {
        "sketch": str(path),
        "digest": sketch.digest,
        "bytes": len(released.content),
        "repeated": released.repeated,
        "charged": {"epsilon": "0", "delta": "0"} if released.repeated else sketch.header.budget,
        "ledger_entry": released.entry.number,
    }


def _report(released: Released, path: Path) -> None:
    header = released.sketch.header
    say(f"wrote {path} ({number(len(released.content) / 1024)} KiB, digest {released.sketch.digest[:12]})")
    if not header.assumptions.key_domain_public and header.key is not None:
        (part,) = header.key.parts
        say(f"found {part.size:,} keys of {part.name}: the list {part.domain}, kept on this machine.")
    if header.preparation.kind == "nonprivate":
        say("NOT PRIVATE: its preparation read the rows without paying. Platforms refuse this sketch.")
    if header.preparation.kind == "tuned":
        say("NOT PRIVATE: its card was changed after its rows were looked at. Platforms refuse this sketch.")


def _say_cost(released: Released, path: Path) -> None:
    header = released.sketch.header
    dataset = header.dataset.name
    if released.repeated:
        say("this very release was asked for before: the same as then, at no further cost.")
    else:
        say(f"charged {dataset}: ε={header.budget['epsilon']}, δ={header.budget['delta']} under {header.neighbours}")
    say(f"next: `saibot inspect {path}` shows what it says; `saibot ledger {dataset}` what is left.")
