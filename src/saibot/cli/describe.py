"""`saibot describe`: what a provider says of a table beside its sketches."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saibot.cli.connection import PlatformOption, open_connection, shown
from saibot.cli.show import JsonOption, print_json
from saibot.report.terminal import print_table

if TYPE_CHECKING:
    from saibot.client import Provider
    from saibot.wire import About, Dataset

LicenceOption = Annotated[str | None, typer.Option(help="What others may do with it: CC BY 4.0, or an address.")]
ContactOption = Annotated[str | None, typer.Option(help="Whom to ask: a mailbox, or an address of a page.")]
TagOption = Annotated[list[str] | None, typer.Option(help="A word or two that it belongs to. Repeatable.")]


def add_to(app: typer.Typer) -> None:
    app.command("describe")(describe)


def describe(
    id: Annotated[str, typer.Argument(help="Id of one of your datasets, as `saibot datasets --mine` shows it.")],
    licence: LicenceOption = None,
    contact: ContactOption = None,
    tag: TagOption = None,
    about: Annotated[Path | None, typer.Option(help="A file of Markdown: more about it, for its page.")] = None,
    platform: PlatformOption = None,
    json: JsonOption = False,
) -> None:
    """Say licence, contact, tags and more of a dataset; without options, show them. The sketch stays what it is.

    Of its table, by all keys that it is published by. What is not given stays; an empty text takes it away.
    """
    from saibot.client import Provider
    from saibot.errors import InvalidInput

    said = said_in_options(licence, contact, tag)
    if about is not None:
        try:
            said["more"] = about.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise InvalidInput(f"{about} cannot be read as text.", hint="It is a file of Markdown, in UTF-8.") from None
    check(said)
    with open_connection(platform) as opened:
        found = Provider(opened).describe(id, **said) if said else opened.about(id)
    if json:
        print_json({"platform": opened.url, "dataset": id, "about": found.to_json()})
        return
    print_table(f"what is said of {shown(id)}", ["", ""], [[name, shown(text)] for name, text in facts_of(found)])


def facts_of(said: About) -> list[tuple[str, str]]:
    """Lines of a table, without those of which nothing is said."""
    facts = [("licence", said.licence), ("contact", said.contact), ("tags", ", ".join(said.tags)), ("more", said.more)]
    return [(name, text) for name, text in facts if text]


def said_in_options(licence: str | None, contact: str | None, tag: list[str] | None) -> dict[str, Any]:
    """What was given; `--tag ''` says that there are none."""
    tags = None if tag is None else tuple(dict.fromkeys(one.strip() for one in tag if one.strip()))
    given = {"licence": licence, "contact": contact, "tags": tags}
    return {name: value for name, value in given.items() if value is not None}


def check(said: dict[str, Any]) -> None:
    """Refuse what a platform would refuse, before anything is charged or sent."""
    from pydantic import ValidationError

    from saibot.errors import InvalidInput
    from saibot.wire import About

    try:
        About(**said)
    except ValidationError as problem:
        field = problem.errors(include_input=False)[0]["loc"][0]
        hint = "A line has at most 200 letters; there are at most 20 tags of 40 letters, and 20,000 letters of text."
        raise InvalidInput(f"what is said of it is too long: {field}.", hint=hint) from None


def describe_all(provider: Provider, published: Iterable[Dataset], said: dict[str, Any]) -> None:
    """Say it of every table that was just published, once."""
    if said:
        for id in {dataset.name: dataset.id for dataset in published}.values():
            provider.describe(id, **said)
