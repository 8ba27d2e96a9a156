"""`saibot domains`: the public key domains that a platform knows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saibot.cli.connection import PlatformOption, open_connection, shown
from saibot.cli.show import JsonOption, print_json
from saibot.report.terminal import print_table


def add_to(app: typer.Typer) -> None:
    domains = typer.Typer(help="Key domains of a platform: list them, look at one, register one.", no_args_is_help=True)
    domains.command("list")(list_domains)
    domains.command("show")(show)
    domains.command("register")(register)
    app.add_typer(domains, name="domains")


def list_domains(platform: PlatformOption = None, json: JsonOption = False) -> None:
    """List the registered key domains. Days and ranges of numbers need no registration and are not among them."""
    with open_connection(platform) as opened:
        found = list(opened.domains())
    if json:
        print_json({"platform": opened.url, "domains": [domain.model_dump(mode="json") for domain in found]})
        return
    rows = [
        [shown(one.id), str(one.version), f"{one.size:,}", shown(", ".join(one.levels)) or "–", one.digest[:12]]
        for one in found
    ]
    print_table(f"key domains at {opened.url}", ["id", "version", "keys", "coarser levels", "digest"], rows, right=(1, 2))


def show(
    id: Annotated[str, typer.Argument(help="The domain's id.")],
    version: Annotated[int, typer.Option(help="Its version.", min=1)] = 1,
    out: Annotated[Path | None, typer.Option(help="Write all its keys here, as CSV.")] = None,
    json: JsonOption = False,
    platform: PlatformOption = None,
) -> None:
    """Show a key domain: how many keys of which levels, and the first of them."""
    from saibot.domains.csv_text import domain_to_csv
    from saibot.safe_file import write_safely

    with open_connection(platform) as opened:
        domain = opened.domain(id, version)
    if out is not None:
        write_safely(out, domain_to_csv(domain))
    facts = {
        "id": domain.id,
        "version": domain.version,
        "size": len(domain),
        "digest": domain.digest,
        "keys_digest": domain.keys_digest,
        "levels": {name: len(set(column)) for name, column in domain.parents},
        "first_keys": list(domain.values[:10]),
    }
    if json:
        print_json(facts | {"file": None if out is None else str(out)})
        return
    levels = "".join(f", {size:,} of level {shown(name)}" for name, size in ((n, len(set(c))) for n, c in domain.parents))
    typer.echo(f"{shown(domain.id)} version {domain.version}: {len(domain):,} keys{levels}; digest {domain.digest[:12]}")
    typer.echo("  " + shown(", ".join(domain.values[:10])) + (", …" if len(domain) > 10 else ""))
    if out is not None:
        typer.echo(f"wrote {out}")


def register(
    file: Annotated[Path, typer.Argument(help="CSV or Parquet: first column the keys, further ones their coarser levels.")],
    id: Annotated[str, typer.Option(help="The name that cards and sketches know it by.")],
    version: Annotated[int, typer.Option(help="A changed list of keys is another version.", min=1)] = 1,
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
        typer.echo(f"registered {shown(done.id)} version {done.version} with {done.size:,} keys at {opened.url}")
