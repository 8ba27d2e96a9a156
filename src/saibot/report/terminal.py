"""Results and other facts on a terminal: tables as wide as the screen, and the same numbers as everywhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from saibot.report.format import fixed, number, percent, plain_text, plural, printable, signed
from saibot.report.result import LESS_SURE, coefficient_rows, standing_in_words
from saibot.report.worth import judged_on, worth_heads, worth_rows, yes_or_no_rows
from saibot.search.rankings import RANKINGS
from saibot.wire import Entry, Measured, Result, Worth

BAR = 24  # most letters of an error bar
LEAST_BAR = 10  # a shorter one says nothing, and its heading needs as much: leave it out
EDGES, GAP = 2, 3  # letters that a table has at its edges, and between columns
LONGEST_NOTE = 500
UNTOLD = "too noisy to say"
FINGERPRINT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{8}){3}")


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[int] = (),
    whole: Sequence[int] = (),
) -> None:
    """Names are somebody's own: `[/]` in one of them is no markup, and what would command the terminal is left out.

    Columns named in `whole` are never broken over lines: what is typed again or seen as a picture stays in one piece.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.show_header = any(columns)  # facts with their names before them need no heading
    for place, name in enumerate(columns):
        justify: Literal["left", "right"] = "right" if place in right else "left"
        width = max((len(row[place]) for row in rows), default=0) if place in whole else None
        table.add_column(Text(printable(name)), justify=justify, overflow="fold", no_wrap=place in whole, min_width=width)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console()
    console.print(Text(printable(title), style="bold"))  # as wide as the screen, not as its table
    console.print(table)


def screen_width() -> int:
    """Letters that fit on a line here; 80 where nobody is looking."""
    from rich.console import Console

    return Console().width


# ------------------------------------------------------------------------------------------------ results


def show_result(result: Result, *, sketches: int | None, shown: int) -> None:
    """What was found, for people; `sketches` is how many there were to choose from, where that is known."""
    held_out = f", {result.rows.test:,} held out" if result.rows.test is not None else ""
    kind = "private request (its noise is in every number)" if result.private else "local request: exact, nothing sent"
    print(plain_text(f"{result.request}: {result.rows.train:,} training rows{held_out}; {kind}"))
    for note in result.notes:
        print(plain_text(f"  {note}"))
    told = f"{plural(result.candidates - result.unions, 'join')} and {plural(result.unions, 'union')} to choose from"
    print(f"  {told}" + (f", of {plural(sketches, 'sketch', 'sketches')}" if sketches is not None else ""))
    print()
    show_ranking(result, shown)
    show_path(result)
    if result.worth is not None:
        show_worth(result.worth)
    show_coefficients(result)
    for place, step in enumerate(result.steps, start=1):
        if step.kind == "join" and step.note:
            print(plain_text(f"step {place}: {step.note}", most=LONGEST_NOTE))
    print(plain_text(f"stopped: {result.stopped}."))
    for dropped in result.dropped:
        such = f" ({', '.join(dropped.examples)})" if dropped.examples else ""
        print(plain_text(f"not taken: {dropped.count:,} because {dropped.reason.removesuffix('.')}{such}"))


def show_ranking(result: Result, shown: int) -> None:
    """The first candidates with the gain that they are ranked by, and an error bar where the screen has room for one."""
    if not result.ranked:
        return
    ranked, taken = result.ranked[:shown], result.taken
    several = len({entry.on for entry in result.ranked}) > 1
    by = RANKINGS.get(result.rank)
    column = by.shows if by is not None else "gain"
    gains = [_gain(entry, column) for entry in ranked]
    by_whom = bool(result.named_providers)
    rows = [
        [
            str(place),
            _name(entry),
            *([_whose(result, entry)] if by_whom else []),
            entry.on if several else percent(entry.reliability),  # both would not fit a narrow terminal
            "" if gain is None else signed(gain),
            UNTOLD if gain is None else f"{fixed(low)} to {fixed(high)}",
            number(entry.coefficient, 3),
            str(taken.get(entry.identity, "")),
        ]
        for place, (entry, (gain, (low, high))) in enumerate(zip(ranked, gains, strict=True), start=1)
    ]
    kind = "gain" if column == "gain" else f"{column} gain"
    sure = percent(result.interval_confidence)
    interval = f"usable, {sure}" if column == "expected" else f"{sure} interval"
    whose = ["by"] if by_whom else []
    heads = ["", "candidate", *whose, "on" if several else "signal", kind, interval, "slope", "step"]
    order = by.first if by is not None else "the surest"
    on = 2 + len(whose)
    right = [0, *(() if several else (on,)), *range(on + 1, on + 5)]
    for place in (on + 3, on):  # the slope, then what it is joined on or its signal, make room for names in one piece
        if needed_width(heads, rows) > screen_width():
            for line in (heads, *rows):
                del line[place]
            right = [other - (other > place) for other in right if other != place]
    letters = bar_letters(heads, rows, screen_width())
    most = max((max(gain, high) for gain, (_, high) in gains if gain is not None), default=0.0)
    if letters and most > 0:
        heads.append(f"0 to {fixed(most, 2)}")
        for row, (gain, (low, high)) in zip(rows, gains, strict=True):
            row.append("" if gain is None else error_bar(low, gain, high, most, letters))
    title = f"candidates by themselves: {kind} in R², {order} first"
    print_table(title, heads, rows, right=right, whole=range(3 if by_whom else 2, len(heads)))
    for standing in (one for one in result.providers if one.name in {entry.provider for entry in ranked}):
        print(plain_text(f"{_short(standing.name)}: {standing_in_words(standing)}", most=LONGEST_NOTE))
    for name, text in dict.fromkeys((_name(entry), flag.text) for entry in ranked for flag in entry.flags):
        print(plain_text(f"! {name}: {text}", most=LONGEST_NOTE))
    values = [gain for gain, _ in gains if gain is not None]
    if values != sorted(values, reverse=True):
        print(LESS_SURE)
    if by is not None and column != "gain":
        print(f"Ranked by {by.sentence}. The models below use the private values as they are.")


def show_path(result: Result, title: str = "R² step by step") -> None:
    """R² of the base model and after each step, on the training rows and on the held-out ones."""
    models = [("own features", result.base), *((f"{i}  + {step.added}", step) for i, step in enumerate(result.steps, 1))]
    held_out = all(model.test_r2 is not None for _, model in models)
    rows = [[name, fixed(model.train_r2), _held_out(model) if held_out else "–"] for name, model in models]
    print_table(title, ["model", "training", "held out"], rows, right=(1, 2))


def show_worth(worth: Worth) -> None:
    """What the columns are worth beside what the requester has anyway, and what to make of it."""
    rows = worth_rows(worth)
    if rows:
        sure = percent(worth.confidence)
        print_table(f"what it is worth to you, with {sure} intervals", worth_heads(worth), rows, right=(1, 2))
    if worth.family == "binomial":
        heads = ("AUC, log loss", *worth_heads(worth)[1:])
        print_table("and as a yes or no", heads, yes_or_no_rows(worth), right=(1, 2))
    print(plain_text(worth.sentence, most=LONGEST_NOTE))
    if told := judged_on(worth):
        print(plain_text(told, most=LONGEST_NOTE))
    print()


def show_coefficients(result: Result) -> None:
    """The model that the search ended with, in original units."""
    rows = [
        [name, number(value), "noise leaves it open" if low is None else f"{number(low)} to {number(high)}"]
        for name, value, low, high in coefficient_rows(result)
    ]
    if rows:
        sure = percent(result.interval_confidence)
        print_table(
            f"the model of {result.target}, in original units", ["", "coefficient", f"{sure} interval"], rows, right=(1, 2)
        )


def bar_letters(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> int:
    """How long error bars can be beside these columns; 0 where there is no room for any."""
    letters = min(width - needed_width(columns, rows) - GAP, BAR)
    return letters if letters >= LEAST_BAR else 0


def needed_width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Letters that a table takes where no cell of it is broken."""
    return EDGES - GAP + sum(max(map(len, cells)) + GAP for cells in zip(columns, *rows, strict=True))


def error_bar(low: float, middle: float, high: float, most: float, letters: int = BAR) -> str:
    """`├──●──┤` on a line from 0 to `most`."""
    place = [min(max(round(value / most * (letters - 1)), 0), letters - 1) for value in (low, middle, high)]
    line = [" "] * letters
    for i in range(place[0], place[2] + 1):
        line[i] = "─"
    line[place[0]], line[place[2]] = "├", "┤"
    line[place[1]] = "●"
    return "".join(line)


def _gain(entry: Entry, column: str) -> tuple[float | None, tuple[float, float]]:
    """The number that the ranking goes by, and the interval beside it; None where noise leaves it untold."""
    if column == "potential" and entry.kind == "join":
        return entry.potential, entry.potential_interval or entry.interval
    if column == "expected" and entry.expected is not None:
        return entry.expected, entry.interval
    return entry.gain, entry.interval


def _name(entry: Entry) -> str:
    mark = " !" if entry.flags else ""
    if entry.kind == "union":
        return f"{entry.dataset} (rows){mark}"
    return (f"{entry.dataset}.{entry.feature}" if entry.feature is not None else f"{entry.dataset} ({entry.what})") + mark


def _whose(result: Result, entry: Entry) -> str:
    """Its provider, and whether somebody has verified who that is."""
    if entry.provider is None:
        return "" if entry.dataset.startswith("shared:") else "unsigned"
    standing = result.standing_of(entry)
    return _short(entry.provider) + (", verified" if standing is not None and standing.verified else "")


def _short(name: str) -> str:
    """Of a key's fingerprint the first group; other names as they are."""
    return name[:8] if FINGERPRINT.fullmatch(name) else name


def _held_out(model: Measured) -> str:
    """The held-out R² with its interval, or the interval alone where it leaves the number no meaning."""
    if model.test_interval is None:
        return fixed(model.test_r2)
    low, high = model.test_interval
    interval = f"{fixed(low, 2)} to {fixed(high, 2)}"
    return f"unclear ({interval})" if model.unclear else f"{fixed(model.test_r2)} ({interval})"
