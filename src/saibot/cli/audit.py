"""`saibot audit`: attack the release, file to file, and compare what it gives away with what is claimed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.report import check_outputs
from saibot.cli.show import JsonOption, print_json, progress, say
from saibot.report.format import number, plural
from saibot.report.terminal import print_table

if TYPE_CHECKING:
    from saibot.audit.run import Audit


def add_to(app: typer.Typer) -> None:
    app.command("audit")(audit)


def audit(
    full: Annotated[
        bool, typer.Option("--full", help="The long form: 10,000 pairs, every mechanism file to file, and a report.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for report.html, report.json and the pairs compared so far; an audit goes on there."),
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop comparing pairs after this time.", min=0.01)] = None,
    pairs: Annotated[int | None, typer.Option(help="Random pairs of tables to compare. Default: 600.", min=1)] = None,
    seed: Annotated[int | None, typer.Option(help="Draw the same tables again. Default: others each time.", min=0)] = None,
    source: Annotated[
        list[str] | None, typer.Option(help="Only this form of table: csv, pandas, 'csv by pandas'... Repeatable.")
    ] = None,
    releases: Annotated[
        int | None,
        typer.Option(help="Draws of the noise for each of two tables, per mechanism. Default: 1000; full: 20000.", min=100),
    ] = None,
    file_releases: Annotated[
        int | None,
        typer.Option(help="Whole releases, file to file, of each of two tables. Default: 20; full: 400.", min=4),
    ] = None,
    noise_factor: Annotated[float, typer.Option(help="Break the noise on purpose, to see the audit notice: 0.7.")] = 1.0,
    workers: Annotated[int | None, typer.Option(help="Processes at once. Default: 1; full: one per core.", min=1)] = None,
    json: JsonOption = False,
) -> None:
    """Try to disprove what Saibot claims: neighbouring tables through the whole product, attacks on the noise, promises.

    Exits with 1 if a claim is disproved. One that is not disproved is not thereby proved: that is what the proofs are for.
    """
    from secrets import randbelow

    from saibot.audit.run import AuditTerms, run_audit, seed_of, usual_workers

    if out is not None:
        check_outputs(report=out / "report.html")
    known = seed if seed is not None else seed_of(out)
    terms = AuditTerms(
        seed=randbelow(1 << 32) if known is None else known,
        pairs=pairs or (10_000 if full else 600),
        sources=tuple(source or ()),
        minutes=minutes,
        releases=releases or (20_000 if full else 1000),
        file_releases=file_releases or (400 if full else 20),
        all_releases=full,
        noise_factor=noise_factor,
        workers=workers or (usual_workers() if full else 1),
        examples=10 if full else 3,
    )
    with progress(quiet=json) as tell:
        found = run_audit(terms, folder=out, tell=tell)
    if out is not None:
        from saibot.audit.report import write_report

        write_report(found, out)
    if json:
        print_json(found.to_json())
    else:
        _show(found)
        if out is not None:
            say(f"wrote {out / 'report.html'}: it opens in any browser, offline")
    if found.broken:
        raise typer.Exit(1)


def _show(found: Audit) -> None:
    groups = [
        [name, f"{group['pairs']:,}", number(group["claimed"]), number(group["measured"]), number(group["ratio"], 3)]
        for name, group in found.groups().items()
    ]
    heads = ["release", "pairs", "claimed", "moved", "ratio"]
    title = f"{plural(found.compared, 'pair')} of neighbouring tables, the one nearest to its claim of each kind of release"
    print_table(title, heads, groups, right=(1, 2, 3, 4))
    attacks = [
        [f"{f.mechanism} {f.layout} ({f.noise})", number(f.claim), f"at least {number(f.lower_bound)}", _word(f.broken)]
        for f in found.mechanisms
    ]
    attacks += [
        [f.name, number(f.claim), f"{number(f.estimate, 3)} ({number(f.lower, 3)} to {number(f.upper, 3)})", _word(f.broken)]
        for f in found.releases
    ]
    print_table(
        "attacks on real noise: separation in normal deviates, which is μ for Gaussian noise; below, file to file",
        ["release", "claimed", "shown", "verdict"],
        attacks,
        right=(1, 2),
    )
    print_table("promises", ["promise", "verdict"], [[one.promise, one.word] for one in found.promises])
    for one in found.promises:
        if one.broken or one.skipped:
            say(f"{one.promise}: {one.broken or one.skipped}")
    for example in found.examples:
        say("", *str(example).splitlines())
    broken = len(found.broken_pairs)
    say(
        "",
        f"seed {found.terms.seed}; {found.pairs_a_minute:,.0f} pairs a minute; {plural(broken, 'pair')} beyond a claim.",
    )
    say("BROKEN: a claim is disproved." if found.broken else "Nothing was disproved, which proves nothing.")


def _word(broken: bool) -> str:
    return "BROKEN" if broken else "not disproved"
