"""`saibot inspect`: what a sketch says about itself and about its table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saibot.cli.options import checked_file
from saibot.cli.plan import show_plan
from saibot.cli.show import JsonOption, print_json
from saibot.report.format import number, plural, with_error
from saibot.report.terminal import print_table

if TYPE_CHECKING:
    from saibot.estimate import Profile
    from saibot.sketch import Header, Sketch


def add_to(app: typer.Typer) -> None:
    app.command("inspect")(inspect)


def inspect(
    sketch: Annotated[Path, typer.Argument(help="A .saibot file.")],
    json: JsonOption = False,
) -> None:
    """Show header, plan, assumptions and private profile of SKETCH. Needs no platform and costs no budget."""
    from saibot.errors import InvalidInput
    from saibot.estimate import profile
    from saibot.sketch import implausible, read_sketch

    read = read_sketch(checked_file(sketch))
    try:
        found = profile(read)
    except InvalidInput:
        found = None  # a centred scatter has no profile
    if json:
        header: dict[str, Any] = read.header.model_dump(mode="json")
        flags = [{"code": flag.code, "text": flag.text} for flag in implausible(read)]
        told = {"header": header, "profile": found.to_json() if found else None, "signer": _signer(read), "flags": flags}
        print_json(told)
        return
    _show_header(read)
    if read.plan is not None:
        show_plan(read.plan)
    if found:
        _show_profile(found, exact=read.header.open)


def _show_header(sketch: Sketch) -> None:
    from saibot.sketch import implausible

    header = sketch.header
    facts = [
        ["dataset", f"{header.dataset.name}  {header.dataset.title}".strip()],
        *_protection(header),
        ["rows", f"{header.rows:,} (public)" if header.rows is not None else "protected"],
    ]
    if total := header.total():
        facts.append(["account", f"all releases about these individuals came to {total} with this one"])
    if header.key:
        parts = ", ".join(f"{part.name} ({part.domain} v{part.version}, {part.size:,} keys)" for part in header.key.parts)
        levels = f"; levels {', '.join(header.key.levels)}" if header.key.levels else ""
        facts.append(["key", parts + levels])
    for feature in header.features:
        unit = f" ({feature.unit})" if feature.unit else ""
        facts.append(
            ["feature", f"{feature.name} in [{number(feature.lower)}, {number(feature.upper)}]{unit}, {feature.kind}"]
        )
    prepared = header.preparation.kind + ("" if not header.preparation.steps else ": " + "; ".join(header.preparation.steps))
    facts += [
        ["preparation", prepared],
        ["model", _model(sketch) + (", SIMULATED NOISE: not private" if header.simulation else "")],
        ["assumes", _assumptions(sketch)],
        ["created", header.created],
        ["digest", sketch.digest],
        ["signed", _signed(sketch)],
        *(["doubt", flag.text] for flag in implausible(sketch)),
    ]
    print_table("sketch", ["", ""], facts)


def _signer(sketch: Sketch) -> dict[str, str | bool | None] | None:
    """Who signed it, and what this machine knows of that key; the signature was checked when the file was read."""
    from saibot.client import KnownSigners, SigningKeys
    from saibot.sketch import signer_of

    key = signer_of(sketch.header)
    if key is None:
        return None
    own = key in {one.public for one in SigningKeys().read()}
    return {"fingerprint": key.fingerprint, "own": own, "known_as": KnownSigners().name_of(key.fingerprint)}


def _signed(sketch: Sketch) -> str:
    found = _signer(sketch)
    if found is None:
        return "by nobody, as far as this saibot can tell"
    who = "your own" if found["own"] else found["known_as"] or "which this machine has not met"
    return f"with the key {found['fingerprint']}, {who}"


def _protection(header: Header) -> list[list[str]]:
    if header.open:
        return [["open", "exact: no noise, no privacy cost, nobody is protected"], ["source", header.source or ""]]
    cost = f"ε={header.budget['epsilon']}, δ={header.budget['delta']} under {header.neighbours}"
    return [["individual", header.dataset.individual], ["protected", cost]]


def _model(sketch: Sketch) -> str:
    """Who added the noise: the provider of a table, or individuals, whose reports were added up."""
    header = sketch.header
    return (
        f"local: {plural(header.rows or 0, 'report')}, each with the noise below"
        if header.model == "local"
        else header.model
    )


def _assumptions(sketch: Sketch) -> str:
    stated = sketch.header.assumptions
    if sketch.header.open:
        return "the whole table is public"
    words = [f"an individual owns at most {plural(stated.rows_per_individual, 'row')}", "the key domain is public"]
    words.append(
        "bounds are public or paid for" if stated.bounds_public else "NOTHING about bounds: they were read from the rows"
    )
    words.append("the row count is public" if stated.row_count_public else "the row count is protected")
    return "; ".join(words)


def _show_profile(found: Profile, *, exact: bool) -> None:
    rows = [
        [one.name, *(with_error(told.value, told.error, one.unit) for told in (one.mean, one.deviation))]
        for one in found.features
    ]
    count = with_error(found.count.value, found.count.error)
    title = f"private profile of {count} rows (± one standard deviation of the noise)"
    print_table(f"profile of {count} rows" if exact else title, ["feature", "mean", "spread"], rows)
    if found.correlations and len(found.features) > 1:
        names = [feature.name for feature in found.features]
        cells = [
            [
                names[i],
                *(with_error(cell.value, cell.error) if i != j else "1" for j, cell in enumerate(row)),
            ]
            for i, row in enumerate(found.correlations)
        ]
        print_table("correlations", ["", *names], cells)
