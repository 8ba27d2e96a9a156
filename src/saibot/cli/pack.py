"""`saibot pack`: sketches become a corpus that can be searched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.show import JsonOption, print_json, progress, say
from saibot.report.format import plural
from saibot.report.terminal import print_table

if TYPE_CHECKING:
    from saibot.sketch import KeyDomain

DomainOption = Annotated[
    list[Path] | None, typer.Option(help="Key domain file (CSV or Parquet) with its coarser levels. Repeatable.")
]
DomainIdOption = Annotated[
    list[str] | None, typer.Option(help="Id of each --domain, as the sketches name it; ID@VERSION for a later version.")
]


def add_to(app: typer.Typer) -> None:
    app.command("pack")(pack)


def pack(
    corpus: Annotated[Path, typer.Argument(help="Folder of the corpus; made where there is none.")],
    sketches: Annotated[list[Path], typer.Argument(help=".saibot files, or folders of them.")],
    domain: DomainOption = None,
    domain_id: DomainIdOption = None,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Take sketches that are not private, too: simulated noise, unpaid preparation.")
    ] = False,
    trust_open: Annotated[
        bool,
        typer.Option(
            "--trust-open", help="You vouch for the sources of all open tables: they help to improve others' values."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Pack SKETCHES into CORPUS. Bad ones are named with the reason, and the exit status is 1; the good ones are packed."""
    from saibot.client.packing import pack_sketches
    from saibot.errors import InvalidInput

    with progress(quiet=json) as tell:
        packed_into, packed = pack_sketches(
            corpus,
            sketches,
            domains=given_domains(domain, domain_id),
            unsafe=unsafe,
            trust_open=trust_open,
            progress=tell,
        )
    if json:
        print_json({"corpus": str(corpus), "sketches": len(packed_into)} | packed.to_json())
    else:
        for path, dataset in packed.added:
            say(f"packed {path} ({dataset})")
        for path, dataset in packed.known:
            say(f"known already: {path} ({dataset})")
        for path, dataset, other in packed.copies:
            say(f"left out: {path} ({dataset}) has the numbers of {other}: a copy counts once")
        if packed.refused:
            print_table("refused", ["sketch", "reason"], [[path, reason] for path, reason in packed.refused])
        for note in packed.notes:
            say(f"note: {note}")
        for name, count, rank in packed.shared:
            causes = plural(rank, "cause", "causes")
            say(f"{count} sketches by {name} have {causes} in common: the values of each were improved by all others")
        if packed.open_tables and packed.open_teach:
            say(f"{plural(packed.open_tables, 'open sketch', 'open sketches')} may teach: you vouch for the sources.")
        elif packed.open_tables:
            say(
                f"{plural(packed.open_tables, 'open sketch', 'open sketches')} can be found and may not teach: nobody has "
                "confirmed the sources. --trust-open says that you do."
            )
        say(f"{corpus} holds {plural(len(packed_into), 'sketch', 'sketches')}.")
    if not packed.added and not packed.known and not packed.copies:
        raise InvalidInput("no sketch was packed.", hint="`saibot inspect SKETCH` says more about each.")
    if packed.refused:
        raise typer.Exit(1)
    if not json:
        say(f"next: `saibot search --corpus {corpus} --train TABLE --target COLUMN --key COLUMN`")


def given_domains(files: list[Path] | None, ids: list[str] | None) -> list[KeyDomain]:
    """The domains of `--domain FILE --domain-id ID`, in pairs."""
    from saibot.errors import InvalidInput
    from saibot.privatize.domain_file import read_domain

    if len(files or []) != len(ids or []):
        raise InvalidInput("every --domain needs its --domain-id, the id that sketches know it by.")
    found = []
    for path, text in zip(files or [], ids or [], strict=True):
        id, _, version = text.partition("@")
        if version and not version.isdigit():
            raise InvalidInput(f"--domain-id is ID or ID@VERSION, not {text!r}.")
        found.append(read_domain(path, id=id, version=int(version or 1)))
    return found
