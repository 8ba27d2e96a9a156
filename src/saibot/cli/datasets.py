"""`saibot datasets`: what a platform has to offer."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.connection import PlatformOption, day, describe_key, open_connection, shown
from saibot.cli.describe import facts_of
from saibot.cli.show import JsonOption, print_json, say
from saibot.report.format import number, plural
from saibot.report.terminal import print_table
from saibot.report.words import account_total

if TYPE_CHECKING:
    from saibot.wire import About, Dataset, ShownDataset, Uses


OPEN = "open: exact, no privacy cost"


def add_to(app: typer.Typer) -> None:
    app.command("datasets")(datasets)


def datasets(
    id: Annotated[str | None, typer.Argument(help="Show this one, with its private profile.")] = None,
    query: Annotated[
        str | None, typer.Option("--query", "-q", help="Words in its name, title, features, tags or licence.")
    ] = None,
    domain: Annotated[str | None, typer.Option(help="Only those with this key domain.")] = None,
    provider: Annotated[str | None, typer.Option(help="Only this provider's.")] = None,
    feature: Annotated[str | None, typer.Option(help="Only those with a feature of this name.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only those with this tag.")] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only your own.")] = False,
    sort: Annotated[str, typer.Option(help="published, rows, epsilon, name or used.")] = "published",
    limit: Annotated[int, typer.Option(help="Most to list.", min=1)] = 50,
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """List what is published, or show one dataset."""
    with open_connection(platform) as opened:
        if id is not None:
            one, said = opened.dataset(id), opened.about(id)
            if json:
                print_json(one.model_dump(mode="json") | {"about": said.to_json()})
            else:
                _show(one, said)
            return
        filters = {"q": query, "domain": domain, "provider": opened.me().name if mine else provider}
        filters |= {"feature": feature, "tag": tag}
        found = list(islice(opened.datasets(**filters, sort=sort, limit=min(limit, 100)), limit + 1))
    listed, more = found[:limit], len(found) > limit
    if json:
        print_json({"platform": opened.url, "datasets": [one.model_dump(mode="json") for one in listed], "more": more})
        return
    rows = [
        [
            one.id,
            shown(one.provider) + (" (verified)" if one.verified else ""),
            shown(one.name) + _marks(one),
            shown(describe_key(one)),
            shown(", ".join(feature.name for feature in one.features)),
            "–" if one.rows is None else f"{one.rows:,}",
            "open" if one.budget is None else shown(one.budget.epsilon),
        ]
        for one in listed
    ]
    columns = ["id", "provider", "name", "key", "features", "rows", "ε"]
    if mine:  # all of one provider: the room goes to the names
        columns, rows = [columns[0], *columns[2:]], [[row[0], *row[2:]] for row in rows]
    print_table(f"datasets at {opened.url}", columns, rows, right=range(len(columns) - 2, len(columns)), whole=(0,))
    if any(one.flags for one in listed):
        say("!: something about it is hard to believe; `saibot datasets ID` says what.")
    if more:
        say(f"and more: --limit {2 * limit}, or narrow the list with --query, --domain, --feature or --tag.")
    elif not listed:
        say("nothing is published that fits.")


def _show(one: ShownDataset, said: About) -> None:
    facts = [
        ("id", one.id),
        ("provider", f"{one.provider} ({'verified by an admin' if one.verified else 'not verified'})"),
        ("name", one.name),
        ("title", one.title),
        ("description", one.description),
        *facts_of(said),
        ("a row is", "" if one.open else one.individual),
        ("key", describe_key(one)),
        ("rows", "not public" if one.rows is None else f"{one.rows:,}"),
        ("also by", ", ".join(key.name for key in one.keys[1:])),
        ("budget", OPEN if one.open else f"{one.budget} under {one.neighbours}"),
        ("source", one.source or ""),
        ("confirmed", "" if not one.open else "by an admin: it teaches" if one.confirmed else "not yet: it teaches nothing"),
        ("account", account_total(one.budget.to_json(), one.spent.to_json()) if one.budget and one.spent else ""),
        ("mechanism", f"{one.mechanism}, layout {one.layout}"),
        ("visibility", one.visibility + (f", until {day(one.expires)}" if one.expires else "")),
        ("version", f"{one.version}, published {day(one.published)}, digest {one.digest[:12]}, {one.bytes:,} bytes"),
        ("signed", "by nobody" if one.signer is None else f"with the key {one.signer}"),
        ("used", "" if one.uses is None else _used(one.uses)),
        ("copy of", "a dataset that is not for you to see" if one.copy_of == "" else one.copy_of or ""),
        *(("doubt", flag.text) for flag in one.flags),
    ]
    print_table("dataset", ["", ""], [[name, shown(value)] for name, value in facts if value])
    profile = {entry["name"]: entry for entry in (one.profile or {}).get("features", [])}
    rows = [
        [shown(feature.name), shown(feature.kind), shown(feature.unit), _limits(feature.lower, feature.upper), *_measured(
            profile.get(feature.name)
        )]
        for feature in one.features
    ]  # fmt: skip
    print_table(
        "features, and what the sketch says of them",
        ["feature", "kind", "unit", "bounds", "mean", "deviation"],
        rows,
        right=(3, 4, 5),
    )


def _marks(one: Dataset) -> str:
    return (" (copy)" if one.copy_of is not None else "") + (" !" if one.flags else "")


def _used(uses: Uses) -> str:
    if not uses.total:
        return "in no search yet"
    lately = f"{uses.lately or 'none'} in the last {plural(uses.days, 'day')}"
    return f"in {plural(uses.total, 'search', 'searches')}, {lately}"


def _limits(lower: float | None, upper: float | None) -> str:
    return f"{number(lower)} – {number(upper)}"


def _measured(entry: dict[str, object] | None) -> list[str]:
    return [_estimate((entry or {}).get("mean")), _estimate((entry or {}).get("deviation"))]


def _estimate(found: object) -> str:
    if not isinstance(found, dict) or not isinstance(found.get("value"), int | float):
        return "–"
    error = found.get("error")
    return number(found["value"]) + (f" ± {number(error, 2)}" if isinstance(error, int | float) else "")
