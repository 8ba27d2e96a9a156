"""A first dataset card from a table's column names, and their types where the file declares them. Never from its rows.

A text file declares no types: to find some, rows would have to be read, and one row could change them. So every column of it
is offered both ways, as numbers and as categories, and none is released that its provider has not chosen.
"""

from __future__ import annotations

import re
from pathlib import Path

from saibot.privatize.blanks import BOUNDS, LEVELS
from saibot.privatize.card_text import toml_key, toml_text
from saibot.privatize.heading import read_names
from saibot.privatize.read import open_table
from saibot.privatize.text_file import is_text_file
from saibot.sketch.header import COMMANDING


def card_template(table: Path, *, header_is_names: bool = False) -> str:
    """TOML text with a place for every public fact, to be filled in by hand.

    A text file whose first line cannot be one of names is refused, unless `header_is_names` vouches for it.
    """
    if is_text_file(table):
        features = _choices(read_names(table, sure=header_is_names))
        looked_at = "the names of columns were looked at"
    else:
        features = _typed(table)
        looked_at = "column names and types were looked at"
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", table.name.split(".")[0]).strip("-") or "dataset"
    lines = [
        "# Every public fact about this table, stated before any row is read. Lines with FILL need you.",
        f"# Nothing below was taken from the rows: only {looked_at}.",
        "[dataset]",
        f'name = "{name}"            # identity in the ledger and on the platform',
        'title = ""',
        'individual = "FILL"         # whom a row is about, and so who is protected: "one patient", "one flight"',
        "rows_per_individual = FILL  # how many rows can be about one of them, at most: 1 only where nobody has two",
        '# id = "FILL"               # the column that tells them apart, where one of them can have several rows',
        "# max_rows = FILL           # how many rows there can be at most, a public number: with id, or with add-remove",
        'neighbours = "replace-one"  # or "add-remove", which also protects the number of rows and needs max_rows',
        "",
        "[budget]",
        'cap = { epsilon = "1", delta = "1e-6" }  # of everything that will ever be released about these rows',
        "",
        *features,
        "# A key to join on (--key KEY), with its public list of values: keep one of the domains.",
        "# Provider and requester share the id of a domain, and best its list: so a platform knows that their tables join.",
        "# [keys.KEY]",
        '# column = "FILL"',
        '# domain = { file = "FILL.csv", id = "FILL", version = 1 }  # keys in the first column, below a heading',
        f'# domain = {{ values = {LEVELS}, id = "FILL", version = 1 }}',
        '# domain = { range = [1, 99], of = "FILL" }  # whole numbers, both ends included, and what they count: "ward"',
        '# domain = { dates = ["2013-01-01", "2013-12-31"] }  # every day; has an id by itself',
        '# domain = "us-county-fips"  # or another that `saibot domains list` shows, or "months:2013-01:2013-12"',
    ]
    return "\n".join(lines) + "\n"


def _choices(columns: list[str]) -> list[str]:
    """For every column of a text file two lines, both commented out."""
    lines = [
        "# Of each column that is to be released, take the # off one line and fill it in: public bounds for numbers",
        '# (or bounds = { buy = "0.1" }; unit = "year" may stand beside them), public levels for categories.',
        "# Columns whose lines stay as they are stay at home.",
        "[features]",
    ]
    for column, label in feature_labels(columns).items():
        named = f"column = {toml_text(column)}, " if label != column else ""
        lines += [
            f"# {toml_key(label)} = {{ {named}bounds = {BOUNDS} }}",
            f"# {toml_key(label)} = {{ {named}levels = {LEVELS} }}",
        ]
    return [*lines, ""]


def _typed(table: Path) -> list[str]:
    """A place for every column by its declared type."""
    schema = open_table(table).table.schema()
    lines = []
    for column, label in feature_labels(list(schema)).items():
        kind = schema[column]
        entry = [f"[features.{toml_key(label)}]"] + ([f"column = {toml_text(column)}"] if label != column else [])
        if kind.is_numeric() or kind.is_boolean():
            bounds = "[0, 1]" if kind.is_boolean() else BOUNDS
            lines += [*entry, f'bounds = {bounds}   # public; or {{ buy = "0.1" }}', 'unit = ""', ""]
        elif kind.is_string():
            lines += [
                f"# column {toml_text(column)} is text: list its public levels to make it a feature, or make it a key below"
            ]
            lines += [f"# {line}" for line in entry] + [f"# levels = {LEVELS}", ""]
        else:
            lines += [f"# column {toml_text(column)} holds {kind}: use it as a key below", ""]
    return lines


def feature_labels(columns: list[str]) -> dict[str, str]:
    """For every column the name of its feature, which has no mark of the algebra in it and commands no terminal."""
    labels: dict[str, str] = {}
    for column in columns:
        label = re.sub(rf"[*:={COMMANDING}]", "_", column) if column != "1" else "column_1"
        while label in labels.values() or (label != column and label in columns):
            label += "_"
        labels[column] = label
    return labels
