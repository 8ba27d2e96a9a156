"""What a search's columns are worth, as rows of a table and a sentence: the same for terminals, pages and reports."""

from __future__ import annotations

from saibot.report.format import count, fixed
from saibot.wire import Judged, Situation, Worth

NONE_YET = "none yet"  # own averages of a key that has no rows


def worth_heads(worth: Worth) -> tuple[str, str, str]:
    return worth.measure, f"known {worth.key}", f"new {worth.key}"


def worth_rows(worth: Worth) -> list[list[str]]:
    """A row for every model that was judged: its score with its interval on rows of known keys and of new ones."""
    names = {
        "own": "your own features",
        "means": f"+ your own average per {worth.key}",
        "private": "+ the private columns",
        "both": "+ both",
    }
    rows = []
    for field, name in names.items():
        cells = [_cell(situation, field) for situation in (worth.known, worth.new)]
        if any(cell not in ("–", NONE_YET) for cell in cells):
            rows.append([name, *cells])
    return rows


def yes_or_no_rows(worth: Worth) -> list[list[str]]:
    """The same of AUC and log loss, where the target is a yes or no."""
    rows = []
    for row, field in zip(worth_rows(worth), _fields(worth), strict=True):
        cells = []
        for situation in (worth.known, worth.new):
            one: Judged | None = getattr(situation, field) if situation is not None else None
            cells.append("–" if one is None or one.auc is None else f"{fixed(one.auc)}, {fixed(one.log_loss)}")
        rows.append([row[0], *cells])
    return rows


def judged_on(worth: Worth) -> str:
    """Which rows the numbers are of."""
    told = []
    for situation, kind in ((worth.known, "known"), (worth.new, "new")):
        if situation is not None:
            how = "held out" if situation.held_out else "fold by fold"
            told.append(f"{count(situation.rows)} rows of {count(situation.keys)} {kind} keys, {how}")
    if not told:
        return ""
    answer = f"Judged with a {worth.model} model on {'; '.join(told)}; intervals by drawing keys anew."
    if worth.new is not None and worth.new.private is not None and not worth.new.held_out:
        answer += (
            " The columns were chosen with these very rows, which flatters them a little: `saibot split --by-key` holds out "
            "keys that choose nothing."
        )
    return answer


def _fields(worth: Worth) -> list[str]:
    there = [one for one in (worth.known, worth.new) if one is not None]
    return [field for field in ("own", "means", "private", "both") if any(getattr(one, field) is not None for one in there)]


def _cell(situation: Situation | None, field: str) -> str:
    if situation is None:
        return "–"
    judged: Judged | None = getattr(situation, field)
    if judged is None:
        return NONE_YET if field in ("means", "both") and situation.means is None else "–"
    low, high = judged.interval
    return f"{fixed(judged.score)} ({fixed(low, 2)} to {fixed(high, 2)})"
