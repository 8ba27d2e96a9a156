"""The guided way from a table to a release: what is missing is asked, what was said becomes a card, and the card a request.

Whoever guides answers questions (`Ask`): a person in a terminal, or nobody, and then a missing answer is an error that names
the option. Nothing is charged here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from saibot.client.privatizing import CardLike, read_card
from saibot.domains.aligning import percent
from saibot.errors import InvalidInput
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest
from saibot.privatize.bounds import ENOUGH, prices
from saibot.privatize.card_text import card_text
from saibot.privatize.drafting import (
    NO_KEY,
    Answers,
    card_from,
    check_domain,
    checked_column,
    column_names,
    columns_in_words,
    dataset_name,
)
from saibot.privatize.read import Source, TableLike, open_table
from saibot.privatize.schema import resolve_features
from saibot.privatize.suggesting import (
    names_individuals,
    repeated,
    suggested_vocabularies,
    times_of,
    vocabularies_of,
)
from saibot.privatize.tuning import tuned_fields
from saibot.safe_file import write_safely

COVERAGE = "0.01"  # of epsilon, for a count of the rows whose key is in the domain


@dataclass(frozen=True)
class GuideQuestion:
    """Something that only the provider can say. `hints` help; `seen` tells of rows, and is for the provider's own screen."""

    name: str
    text: str
    hints: tuple[str, ...] = ()
    suggested: str | None = None
    seen: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


Ask = Callable[[GuideQuestion], str]


def nobody(question: GuideQuestion) -> str:
    """Where nobody can be asked, what is missing is an error that names the option."""
    raise InvalidInput(
        f"it is not said: {question.text[0].lower()}{question.text[1:]}",
        hint=f"Say it with {question.flag} (in Python {python_name(question.name)}=). {' '.join(question.hints)}".rstrip(),
    )


def python_name(name: str) -> str:
    return {"feature": "features", "level": "levels"}.get(name, name)


def completed(table: TableLike, answers: Answers, ask: Ask, *, header_is_names: bool = False) -> tuple[Answers, list[str]]:
    """The answers with all that is missing asked for, one after the other; and the names of the table's columns.

    What is individual, key and feature is never guessed. Rows are looked at for hints alone, which are not kept.
    """
    columns = column_names(table, header_is_names=header_is_names)
    source = open_table(table)
    answers = replace(answers, name=answers.name or dataset_name(table))
    if answers.name is None:
        name = ask(GuideQuestion("name", "What is the dataset to be called, in the ledger and on the platform?"))
        answers = replace(answers, name=name)
    answers = _unit(answers, columns, source, ask)
    answers = _key(answers, columns, source, ask)
    if not answers.features:
        left = [name for name in columns if name not in (answers.key, answers.id)]
        told = (
            columns_in_words(left).replace("It has", "There are", 1),
            "age: a number, bounds bought; age=0:100: public bounds; log:income: its logarithm, for what grows by factors;",
            "farm=yes|no: public categories, each a column of its own. Separate columns by blanks.",
        )
        said = ask(GuideQuestion("feature", "Which columns are to be released?", told))
        answers = replace(answers, features=tuple(said.split()))
    return answers, columns


def _unit(answers: Answers, columns: Sequence[str], source: Source, ask: Ask) -> Answers:
    """Who is protected: a person says it, also that each of them has one row only."""
    if not answers.individual:
        asked = GuideQuestion(
            "individual", 'Whom is a row about, "one patient", "one flight"?', ("Whoever that is, is protected.",)
        )
        answers = replace(answers, individual=ask(asked))
    if answers.id is not None:
        checked_column(answers.id, columns)
    elif answers.rows_per_individual is None:
        often = [name for name in repeated(source, columns) if name != answers.key]
        hints = tuple(f"Values of column {name!r} come more than once: is it who a row is about?" for name in often)
        called = [name for name in columns if names_individuals(name) and name != answers.key]
        if often or ask is not nobody:
            text = f"How many rows of this table can be about {answers.individual}, at most?"
            many = ask(GuideQuestion("rows_per_individual", text, hints, suggested=None if called else "1"))
            answers = replace(answers, rows_per_individual=_whole(many, "rows_per_individual"))
    if (answers.rows_per_individual or 1) > 1 and answers.id is None:
        told = (columns_in_words(columns),)
        column = ask(GuideQuestion("id", f"Which column tells {answers.individual} from another?", told))
        answers = replace(answers, id=checked_column(column, columns))
    if answers.id is not None and answers.rows_per_individual is None:
        text = f"How many rows of {answers.individual} may count, at most? More of them cost more noise."
        answers = replace(
            answers, rows_per_individual=_whole(ask(GuideQuestion("rows_per_individual", text)), "rows_per_individual")
        )
    protected = answers.id is not None or answers.neighbours == str(Neighbours.ADD_REMOVE)
    if protected and answers.max_rows is None:
        told = ("The number of rows is protected here: a round number that is public and not too small.",)
        most = ask(GuideQuestion("max_rows", "How many rows can such a table have, at most?", told))
        answers = replace(answers, max_rows=_whole(most, "max_rows"))
    return answers


def _key(answers: Answers, columns: Sequence[str], source: Source, ask: Ask) -> Answers:
    """Which column is the key, and which public vocabulary its keys are of."""
    if answers.key is None:
        told = (columns_in_words(columns), f"{NO_KEY}: the sketch can be added to others, but not looked up.")
        answers = replace(answers, key=ask(GuideQuestion("key", "By which column are others to look values up?", told)))
    if answers.key == NO_KEY:
        return answers
    assert answers.key is not None
    checked_column(answers.key, columns)
    if answers.domain is None:
        shares = [] if ask is nobody else suggested_vocabularies(source, answers.key)
        seen = tuple(f"{id}: {percent(share)} of its values are in it." for id, share in shares[:4])
        named = vocabularies_of(answers.key)
        hints = [f"By the column's name: {', '.join(named)}."] if named else []
        hints += ["dates:2013-01-01:2013-12-31, months:2013-01:2013-12 and the like."] if times_of(answers.key) else []
        hints += ["It lists all keys there are, seen or not: an id of `saibot domains list`, range:ward:1:99, or a file."]
        best = shares[0][0] if shares and shares[0][1] > 0.5 else None
        said = ask(
            GuideQuestion("domain", f"Which public vocabulary are the keys in {answers.key!r} of?", tuple(hints), best, seen)
        )
        answers = replace(answers, domain=said)
    assert answers.domain is not None
    check_domain(answers.domain)
    return answers


def _whole(text: str, name: str) -> int:
    try:
        return int(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise InvalidInput(f"{GuideQuestion(name, '').flag} is a whole number, not {text!r}.") from None


def request_for(card: Card, budget: Budget, *, key: str | None = None, yes: bool = False) -> ReleaseRequest:
    """The release that a guided provider gets of a card: by its key, bounds and coverage bought, all else as usual."""
    if key is None and len(card.keys) > 1:
        raise InvalidInput("the card has several keys.", hint=f"Choose one of {', '.join(card.keys)} with --key.")
    chosen = key or next(iter(card.keys), None)
    if card.dataset.neighbours is None:
        raise InvalidInput(
            "the card does not say what a neighbouring table is.",
            hint='Write neighbours = "replace-one" or "add-remove" into its [dataset] section.',
        )
    chosen = None if chosen == NO_KEY else chosen
    return ReleaseRequest(card, budget, card.dataset.neighbours, key=chosen, coverage=COVERAGE if chosen else None, yes=yes)


def affordable_bounds(card: Card, budget: Budget, rows: int | None, ask: Ask) -> Card:
    """The card, with public bounds in place of those that so few rows would not place; `rows` is a public number.

    A person is asked for a range, and told how much would do otherwise.
    """
    bought = prices(resolve_features(card, ()), budget)
    most = rows if rows is not None else card.dataset.max_rows
    each = card.dataset.rows_per_individual
    for name, price in bought.items():
        if most is None or most * price >= ENOUGH * each:
            continue
        share = Decimal(-(-1000 * ENOUGH * each // int(most * budget.epsilon))) / 1000
        enough = f"A share of {share} of it would do (buy in a card)" if share < 1 else "No share of it would do"
        told = (f"Noise would place bounds that are bought from {most:,} rows for a tenth of this budget. {enough}.",)
        text = f"Between which public bounds does {name!r} lie ({name}=LOWER:UPPER)?"
        said = ask(GuideQuestion("feature", text, told)).removeprefix(f"{name}=")
        try:
            lower, upper = (float(part) for part in said.split(":"))
        except ValueError:
            raise InvalidInput(f"{said!r} are no bounds.", hint="Write LOWER:UPPER, such as 0:100.") from None
        facts = card.document()["features"][name] | {"bounds": [lower, upper]}
        card = card.with_feature(name, **facts)
    return card


def described_table(
    table: TableLike, answers: Answers, ask: Ask, *, path: Path | None, header_is_names: bool = False
) -> tuple[Card, bool]:
    """The card of a table: the one at `path`, or else made of answers; and whether it was made now.

    Where there is a card already, answers that would make another one are refused: it is edited, not contradicted.
    """
    if path is not None and path.is_file():
        card = Card.read(path)
        said = [name for name in answers.said if name not in ("key", "name")]
        if said:
            complete, columns = completed(table, answers, nobody, header_is_names=header_is_names)
            made = card_from(complete, columns)
            if made.model_copy(update={"budget": None}) != card.model_copy(update={"budget": None, "folder": made.folder}):
                raise InvalidInput(
                    f"{path} says something else about this table than the options do.",
                    hint="Edit it and leave them out, or name another card with --card.",
                )
        return card, False
    complete, columns = completed(table, answers, ask, header_is_names=header_is_names)
    return card_from(complete, columns), True


def table_request(
    table: TableLike, answers: dict[str, Any], budget: Budget, *, card: CardLike | None, yes: bool
) -> ReleaseRequest:
    """The release of a table that Python code describes by a card, or by answers."""
    if card is not None:
        others = [name for name in answers if name != "key"]
        if others:
            raise InvalidInput(f"the card says it, or {others[0]} does, not both.", hint="Edit the card, or leave it out.")
        return request_for(read_card(card), budget, key=answers.get("key"), yes=yes)
    given = answers | {name: tuple(answers[name]) for name in ("features", "levels") if name in answers}
    complete, columns = completed(table, replace(Answers(), **given), nobody)
    made = card_from(complete, columns)
    return request_for(affordable_bounds(made, budget, public_rows(table, made), nobody), budget, yes=yes)


def check_untuned(request: ReleaseRequest, ledger: Ledger) -> None:
    """Refuse, before anything is paid, a card that was changed after a look at its rows: no platform takes its sketch."""
    facts = request.card.dataset
    changed = tuned_fields(request.card, facts.account or facts.name, ledger)
    if changed:
        raise InvalidInput(
            f"this card is another one than you have looked at your rows with ({', '.join(changed[:5])}), and not paid for.",
            hint="Release the card that you looked at, or buy what you changed. Nothing was charged or sent.",
        )


def public_rows(table: TableLike, card: Card) -> int | None:
    """How many rows there are, where that is public."""
    if card.dataset.id is not None or card.dataset.neighbours is not Neighbours.REPLACE_ONE:
        return None
    source = open_table(table)
    return int(source.fetch(source.table.aggregate(n=source.table.count())).column("n")[0].as_py())


def keep_card(card: Card, path: Path) -> None:
    write_safely(path, card_text(card).encode())
