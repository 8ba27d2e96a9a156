"""What a result lets one explore, on a terminal: how rows are predicted, the keys that stand out, other budgets."""

from __future__ import annotations

from saibot.report.exploring import ExploredView
from saibot.report.format import number, plain_text, plural
from saibot.report.terminal import print_table

KEYS = 8


def show_explored(explored: ExploredView) -> None:
    """After the result itself; what there is not is left out, for the command's own help says what it takes."""
    if explored.fit is not None:
        title = f"how it predicts {plural(explored.fit.rows, 'row')}: {explored.fit.which}"
        print_table(title, explored.fit_heads, explored.fit_rows, right=(1, 2))
    for one in explored.left:
        right = range(1, len(one.heads))
        print_table(
            f"left unexplained by {one.part.key}: what stands out most", one.heads, one.rows[:KEYS], right=list(right)
        )
        print(plain_text(one.spread))
        print()
    if explored.budget_rows:
        print_table(
            f"what if ε were {number(explored.epsilon)}?", explored.budget_heads, explored.budget_rows, right=(2, 3, 4, 5, 6)
        )
        for sentence in (explored.budget_sentence, explored.request_sentence, *explored.budget_reasons):
            if sentence:
                print(plain_text(sentence))
