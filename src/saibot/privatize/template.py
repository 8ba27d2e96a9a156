"""A first dataset card from a table's column names and types. Never from its values: bounds are the provider's to state."""

from __future__ import annotations

import re
from pathlib import Path

from saibot.privatize.read import open_table


def card_template(table: Path) -> str:
    """TOML text with a place for every public fact, to be filled in by hand."""
    schema = open_table(table).table.schema()
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", table.name.split(".")[0]).strip("-") or "dataset"
    lines = [
        "# Every public fact about this table, stated before any row is read. Lines with FILL need you.",
        "# Nothing below was taken from the rows: only column names and types were looked at.",
        "[dataset]",
        f'name = "{name}"            # identity in the ledger and on the platform',
        'title = ""',
        'individual = "one row"      # whom a row is about: "one patient", "one flight"',
        'neighbours = "replace-one"  # or "add-remove", which also protects the number of rows and needs max_rows',
        "",
        "[budget]",
        'cap = { epsilon = "1", delta = "1e-6" }  # of everything that will ever be released about these rows',
        "",
    ]
    for column, kind in schema.items():
        label = re.sub(r"[*:=]", "_", column)
        entry = [f"[features.{_quoted(label)}]"] + ([f"column = {_quoted(column, always=True)}"] if label != column else [])
        if kind.is_numeric() or kind.is_boolean():
            bounds = "[0, 1]" if kind.is_boolean() else "[FILL, FILL]"
            lines += [*entry, f'bounds = {bounds}   # public; or {{ buy = "0.1" }}', 'unit = ""', ""]
        elif kind.is_string():
            lines += [
                f"# column {column!r} is text: list its public levels to use it as a feature, or use it as a key below"
            ]
            lines += [f"# {line}" for line in entry] + ['# levels = ["FILL", "FILL"]', ""]
        else:
            lines += [f"# column {column!r} holds {kind}: use it as a key below", ""]
    lines += [
        "# A key to join on (--key KEY), with its public list of values: keep one of the four domains.",
        "# Provider and requester share the id of a domain, and best its list: so a platform knows that their tables join.",
        "# [keys.KEY]",
        '# column = "FILL"',
        '# domain = { file = "FILL.csv", id = "FILL", version = 1 }  # keys in the first column, below a heading',
        '# domain = { values = ["FILL", "FILL"], id = "FILL", version = 1 }',
        "# domain = { range = [1, 99] }  # whole numbers, both ends included; has an id by itself",
        '# domain = { dates = ["2013-01-01", "2013-12-31"] }  # every day; has an id by itself',
    ]
    return "\n".join(lines) + "\n"


def _quoted(name: str, *, always: bool = False) -> str:
    if not always and re.fullmatch(r"[A-Za-z0-9_-]+", name):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
