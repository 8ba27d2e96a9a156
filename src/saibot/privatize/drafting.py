"""A dataset card from a provider's answers: whom rows are about, which columns, which key. No row is read for it.

A feature is said in one word: `age` is a number whose bounds are bought, `age=0:100` one with public bounds,
`age=buy:0:100` one whose bounds are bought within a public range, and `farm=yes|no` a category with these public levels.
`log:` in front, `log:income` or `log:income=1:1e6`, takes the logarithm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from saibot.domains import named_domain
from saibot.errors import InvalidInput, SaibotError
from saibot.privatize.card import AUTO, Card
from saibot.privatize.domain_file import read_domain
from saibot.privatize.heading import read_names
from saibot.privatize.read import TableLike, open_table
from saibot.privatize.template import feature_labels
from saibot.privatize.text_file import is_text_file

_NUMBER = r"\s*(-?\d+(?:\.\d+)?)\s*"
_NEARLY_BOUNDS = re.compile(rf"{_NUMBER}(?:-|–|\.\.|;|,|to){_NUMBER}")  # 0-15, 0 to 15: as people write them elsewhere

NO_KEY = "none"


@dataclass(frozen=True)
class Answers:
    """What a provider says about a table; None or empty where nothing was said yet."""

    name: str | None = None
    title: str = ""
    individual: str | None = None
    id: str | None = None
    rows_per_individual: int | None = None
    max_rows: int | None = None
    neighbours: str = "replace-one"
    key: str | None = None  # a column, or "none" for a sketch without a key
    domain: str | None = None  # an id that is known everywhere, or a file that lists the keys
    levels: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    component: bool = False

    @property
    def said(self) -> list[str]:
        """The names of what was said beyond the defaults."""
        empty = Answers()
        return [name for name in self.__dataclass_fields__ if getattr(self, name) != getattr(empty, name)]


def column_names(table: TableLike, *, header_is_names: bool = False) -> list[str]:
    """The names of a table's columns. A text file whose first line cannot be one of names is refused."""
    if isinstance(table, str | Path) and is_text_file(Path(table)):
        return read_names(Path(table), sure=header_is_names)
    return list(open_table(table).table.schema())


def dataset_name(table: TableLike) -> str | None:
    """A name for a file's dataset, after the file; None for a table in memory."""
    if not isinstance(table, str | Path):
        return None
    return re.sub(r"[^A-Za-z0-9._-]+", "-", Path(table).name.split(".")[0]).strip("-") or "dataset"


def card_from(answers: Answers, columns: Sequence[str]) -> Card:
    """The card that the answers make, for a table with these columns. They are complete; see `guiding`."""
    labels = feature_labels(list(columns))
    features = dict(_feature(text, labels) for text in answers.features)
    facts = {
        "name": answers.name,
        "title": answers.title,
        "individual": answers.individual,
        "neighbours": answers.neighbours,
        "rows_per_individual": answers.rows_per_individual or 1,
        "id": answers.id,
        "max_rows": answers.max_rows,
    }
    document: dict[str, Any] = {
        "dataset": {name: value for name, value in facts.items() if value not in (None, "")},
        "features": features,
    }
    if answers.key is not None and answers.key != NO_KEY:
        document["keys"] = {labels[checked_column(answers.key, columns)]: _key(answers, labels)}
    if answers.component:
        numeric = [name for name, given in features.items() if "bounds" in given]
        if len(numeric) < 2 or len(numeric) < len(features):
            raise InvalidInput(
                "a component is made of at least two columns of numbers, and of nothing else.",
                hint="Leave --component out, or name numeric features only.",
            )
        document["component"] = {"of": numeric}
    return Card.parse(document)


def make_card(table: TableLike, **answers: Any) -> Card:
    """A card for a table from answers, to be looked at and edited. Names of columns are read, and no row.

    `make_card(frame, name="homes", individual="one home", key="ward", domain="range:ward:1:20", features=["age=0:100"])`
    """
    given = answers | {name: tuple(answers[name]) for name in ("features", "levels") if name in answers}
    said = replace(Answers(), **given)
    said = replace(said, name=said.name or dataset_name(table))
    for name, needed in (
        ("name", True),
        ("individual", True),
        ("features", True),
        ("domain", said.key not in (None, NO_KEY)),
    ):
        if needed and not getattr(said, name):
            raise InvalidInput(f"a card needs {name}=.", hint="docs/reference/card.md lists what a card says.")
    return card_from(said, column_names(table))


def checked_column(name: str, columns: Sequence[str]) -> str:
    """The name, if there is such a column."""
    if name not in columns:
        near = get_close_matches(name, columns, 1)
        meant = f"Did you mean {near[0]!r}? " if near else ""
        raise InvalidInput(f"the table has no column {name!r}.", hint=f"{meant}{columns_in_words(columns)}")
    return name


def columns_in_words(columns: Sequence[str]) -> str:
    more = f" and {len(columns) - 30} more" if len(columns) > 30 else ""
    return f"It has {', '.join(columns[:30])}{more}."


def _feature(text: str, labels: dict[str, str]) -> tuple[str, dict[str, Any]]:
    log = text.startswith("log:") and text.partition("=")[0] not in labels
    text = text.removeprefix("log:") if log else text
    column, equals, said = (text, "", "") if text in labels else text.partition("=")
    checked_column(column.strip(), list(labels))
    label = labels[column.strip()]
    facts: dict[str, Any] = {"column": column.strip()} if label != column.strip() else {}
    facts |= {"log": True} if log else {}
    if not equals:
        return label, facts | {"bounds": {"buy": AUTO}}
    pair = _pair(said.removeprefix("buy:"))
    if said.startswith("buy:") and pair is not None:
        return label, facts | {"bounds": {"buy": AUTO, "range": pair}}
    if pair is not None:
        return label, facts | {"bounds": pair}
    ends = _NEARLY_BOUNDS.fullmatch(said)
    if ends is not None:
        raise InvalidInput(
            f"the feature {text!r} would be a column of one level, called {said.strip()!r}.",
            hint=f"Bounds have a colon between them: {column}={ends[1]}:{ends[2]}. A card can name such a level.",
        )
    levels = [level.strip() for level in said.split("|") if level.strip()]
    if not levels or ":" in said:
        raise InvalidInput(
            f"the feature {text!r} cannot be read.",
            hint="Write age (bounds are bought), age=0:100 (public bounds), age=buy:0:100, log:age or farm=yes|no (levels).",
        )
    return label, facts | {"levels": levels}


def _pair(text: str) -> list[float] | None:
    try:
        lower, upper = (float(part) for part in text.split(":"))
    except ValueError:
        return None
    return [lower, upper]


def _key(answers: Answers, labels: dict[str, str]) -> dict[str, Any]:
    assert answers.key is not None and answers.domain is not None
    facts: dict[str, Any] = {"column": answers.key} if labels[answers.key] != answers.key else {}
    if Path(answers.domain).is_file():
        path = Path(answers.domain).resolve()
        facts["domain"] = {"file": str(path), "id": path.name.split(".")[0]}
    else:
        facts["domain"] = answers.domain
    return facts | ({"levels": list(answers.levels)} if answers.levels else {})


def check_domain(text: str) -> None:
    """Refuse a vocabulary that is neither known by its id nor a file."""
    if Path(text).is_file():
        read_domain(Path(text), id=Path(text).name.split(".")[0], version=1)
        return
    try:
        named_domain(text)
    except SaibotError as problem:
        raise InvalidInput(problem.message, hint=f"{problem.hint or ''} A file that lists the keys will do, too.") from None
