"""`saibot domains`: public key domains: those that ship, those imported on this machine, those that a platform knows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saibot.cli.connection import PlatformOption, open_connection, shown
from saibot.cli.show import JsonOption, print_json, say
from saibot.report.terminal import print_table

if TYPE_CHECKING:
    from saibot.domains import KeyDomain, Vocabulary

FileArgument = Annotated[
    Path, typer.Argument(help="CSV or Parquet: first column the keys, further ones their coarser levels.")
]
IdOption = Annotated[str, typer.Option(help="The name that cards and sketches know it by.")]
VersionOption = Annotated[int, typer.Option(help="A changed list of keys is another version.", min=1)]
KeyOption = Annotated[str | None, typer.Option(help="The column of the keys, where it is not the first.")]
LevelsOption = Annotated[
    str | None, typer.Option(help="Columns of coarser levels, fine to coarse, with commas. Default: all other columns.")
]


def add_to(app: typer.Typer) -> None:
    domains = typer.Typer(
        help="Public key domains: those that ship, your own, and a platform's.", invoke_without_command=True
    )

    @domains.callback()
    def listed(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            list_domains()

    domains.command("list")(list_domains)
    domains.command("show")(show)
    domains.command("import")(import_domain)
    domains.command("register")(register)
    app.add_typer(domains, name="domains")


def list_domains(platform: PlatformOption = None, json: JsonOption = False) -> None:
    """List the key domains that ship, those imported on this machine, and those registered with your platform, if any.

    Days, weeks, months, years and ranges of numbers spell themselves out in their id and are not among them.
    """
    from saibot.client.config import find_address
    from saibot.domains import imported_domains
    from saibot.domains.vocabularies import catalogue

    imported = () if (registry := imported_domains()) is None else registry.entries()
    address, registered = None, []
    if find_address(platform) is not None:
        with open_connection(platform) as opened:
            address, registered = opened.url, list(opened.domains())
    if json:
        mine = [_facts(card.id, card.version, card.size, [one.name for one in card.parents]) for card in imported]
        ship = [
            _facts(one.id, one.version, one.size, list(one.levels)) | {"title": one.title} for one in catalogue().values()
        ]
        found = [domain.model_dump(mode="json") for domain in registered]
        print_json({"platform": address, "domains": found, "shipped": ship, "imported": mine})
        return
    rows = [[one.id, one.title, f"{one.size:,}", ", ".join(one.levels) or "–"] for one in catalogue().values()]
    print_table("key domains that ship", ["id", "what", "keys", "coarser levels"], rows, right=(2,))
    names = ["id", "version", "keys", "coarser levels", "digest"]
    own = [(card.id, card.version, card.size, [one.name for one in card.parents], card.digest) for card in imported]
    if own:
        print_table("key domains of this machine", names, [_row(*facts) for facts in own], right=(1, 2))
    if address is not None:
        theirs = [_row(one.id, one.version, one.size, one.levels, one.digest) for one in registered]
        print_table(f"key domains at {address}", names, theirs, right=(1, 2))


def show(
    id: Annotated[str, typer.Argument(help="The domain's id.")],
    version: Annotated[int, typer.Option(help="Its version.", min=1)] = 1,
    out: Annotated[Path | None, typer.Option(help="Write all its keys here, as CSV.")] = None,
    json: JsonOption = False,
    platform: PlatformOption = None,
) -> None:
    """Show a key domain: how many keys of which levels, the first of them, and where a shipped one comes from.

    With --platform, the domain that is registered there; otherwise one that ships or was imported comes first.
    """
    from saibot.domains.csv_text import domain_to_csv
    from saibot.domains.vocabularies import shipped
    from saibot.safe_file import write_safely

    domain = _find(id, version, platform)
    vocabulary = None if platform is not None else shipped(id, version)
    if out is not None:
        write_safely(out, domain_to_csv(domain))
    levels = {name: len(set(column)) for name, column in domain.parents}
    if json:
        facts = _facts(domain.id, domain.version, len(domain), levels)
        digests = {"digest": domain.digest, "keys_digest": domain.keys_digest}
        origin = {} if vocabulary is None else _origin(vocabulary)
        print_json(
            facts | digests | origin | {"first_keys": list(domain.values[:10]), "file": None if out is None else str(out)}
        )
        return
    if vocabulary is not None:
        say(vocabulary.title)
    counted = "".join(f", {size:,} of level {shown(name)}" for name, size in levels.items())
    say(f"{shown(domain.id)} version {domain.version}: {len(domain):,} keys{counted}; digest {domain.digest[:12]}")
    say("  " + shown(", ".join(domain.values[:10])) + (", …" if len(domain) > 10 else ""))
    for package in () if vocabulary is None else vocabulary.packages:
        say(f"source: {package.source} ({package.data_licence})")
        say(f"  read from {package.name} {package.edition} ({package.licence})")
    if out is not None:
        say(f"wrote {out}")


def import_domain(
    file: FileArgument,
    id: IdOption,
    version: VersionOption = 1,
    key: KeyOption = None,
    levels: LevelsOption = None,
    json: JsonOption = False,
) -> None:
    """Check a public list of keys and keep it on this machine: cards here then name it by its id alone."""
    from saibot.client.domains import import_domain_file

    chosen = None if levels is None else [name.strip() for name in levels.split(",") if name.strip()]
    domain = import_domain_file(file, id=id, version=version, key=key, levels=chosen)
    names = [name for name, _ in domain.parents]
    if json:
        print_json(_facts(domain.id, domain.version, len(domain), names) | {"digest": domain.digest})
        return
    above = f", with {', '.join(names)}" if names else ""
    say(f"imported {shown(domain.id)} version {domain.version} with {len(domain):,} keys{shown(above)}")
    named = f'"{domain.id}"' if version == 1 else f'{{ id = "{domain.id}", version = {version} }}'
    say(f"next: a card can say `domain = {shown(named)}`; `saibot domains register` makes it known to a platform.")


def register(
    file: FileArgument,
    id: IdOption,
    version: VersionOption = 1,
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """Register a public key domain. It is there for good: sketches of many providers may come to speak of it."""
    from saibot.client.platform import read_domain_file

    domain = read_domain_file(file, id=id, version=version)
    with open_connection(platform) as opened:
        done = opened.register_domain(domain)
    if json:
        print_json(done.model_dump(mode="json"))
    else:
        say(f"registered {shown(done.id)} version {done.version} with {done.size:,} keys at {opened.url}")


# ------------------------------------------------------------------------------------------------ inside


def _find(id: str, version: int, platform: str | None) -> KeyDomain:
    """The domain at the platform that was named; else the one that is known here; else the one at the default platform."""
    from saibot.client.config import find_address
    from saibot.domains import UnknownDomain, named_domain

    if platform is None:
        try:
            return named_domain(id, version)
        except UnknownDomain:
            if find_address(None) is None:
                raise
    with open_connection(platform) as opened:
        return opened.domain(id, version)


def _facts(id: str, version: int, size: int, levels: object) -> dict[str, Any]:
    return {"id": id, "version": version, "size": size, "levels": levels}


def _row(id: str, version: int, size: int, levels: list[str] | tuple[str, ...], digest: str) -> list[str]:
    return [shown(id), str(version), f"{size:,}", shown(", ".join(levels)) or "–", digest[:12]]


def _origin(vocabulary: Vocabulary) -> dict[str, Any]:
    names = ("name", "edition", "licence", "source", "data_licence")
    packages = [{name: getattr(package, name) for name in names} for package in vocabulary.packages]
    return {"title": vocabulary.title, "packages": packages}
