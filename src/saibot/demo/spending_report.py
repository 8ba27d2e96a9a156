"""The spending story to look at: its numbers as rows, and one HTML file that opens anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from saibot.demo.households import OFFICES
from saibot.demo.report import at_most, scores_chart
from saibot.demo.spending import DELTA, EPSILON, SMALL, SpendingStory
from saibot.report.exploring import explore_view
from saibot.report.format import fixed, percent, plural
from saibot.report.html import offline_page
from saibot.report.result import view_result
from saibot.safe_file import write_safely

TYPICAL = "over fifteen draws, 0.44 to 0.95 of what all five raw columns give, 0.69 in the middle"


def write_spending(story: SpendingStory, path: Path) -> None:
    write_safely(path, spending_html(story).encode())


def spending_html(story: SpendingStory) -> str:
    rows = spending_rows(story)
    view = view_result(story.local.result)
    return offline_page(
        "spending.html",
        package="saibot.demo",
        story=story,
        view=view,
        explored=explore_view(view, story.local.explore().fit),
        private_view=view_result(story.private.result),
        scores=rows,
        known=known_rows(story),
        conclusion=conclusion(story),
        scores_chart=scores_chart(rows, on="people in unseen communes"),
        spent=at_most(max(story.spent.values())),
        epsilon=EPSILON,
        delta=DELTA,
        typical=TYPICAL,
        choices=list(story.follows),
        choice_rows=choice_rows(story),
        choice_words=choice_words(story),
    )


def spending_rows(story: SpendingStory) -> list[dict[str, Any]]:
    """R2 on communes that were not surveyed: the three numbers, what a small budget gives, and the ceiling."""
    scores, columns = story.scores, plural(len(story.local.columns), "private column")
    private = [
        ("own features", "the ministry", scores.own),
        ("and own averages by commune", "the ministry; of no use in new communes", scores.own_means),
        (f"and {columns}, ε = {EPSILON}", "the ministry, today", scores.private),
        ("had offices chosen ε = 0.1", "the ministry", story.small),
    ]
    raw = [
        ("the same columns, no noise", "nobody", scores.same_raw),
        ("all five columns, no noise", "nobody", scores.all_raw),
    ]
    return [
        {"label": label, "who": who, "r2": r2, "private": safe}
        for lines, safe in ((private, True), (raw, False))
        for label, who, r2 in lines
    ]


def choice_rows(story: SpendingStory) -> list[list[str]]:
    """By column of an office: how well its private averages follow the true ones, with each choice."""
    return [
        [f"{said} ({office})", *(fixed(made[office], 2) for made in story.follows.values())]
        for office, (_, said, _) in OFFICES.items()
    ]


def choice_words(story: SpendingStory) -> str:
    """What the choices come to, in two sentences."""
    numbers = [office for office, (_, said, _) in OFFICES.items() if "=" not in said]
    chosen, wide, _ = ([made[office] for office in numbers] for made in story.follows.values())
    tight = story.follows[SMALL].values()
    return (
        f"Bounds a few times too wide leave columns of numbers at most {fixed(max(wide), 2)}, where bought ones leave "
        f"{fixed(min(chosen), 2)} to {fixed(max(chosen), 2)}; yes and no need no bounds. "
        f"A tenth of the budget leaves at most {fixed(max(tight), 2)} of any column."
    )


def known_rows(story: SpendingStory) -> list[tuple[str, float, float]]:
    """The three numbers on new communes beside those on new rows of surveyed communes."""
    scores = story.scores
    return [
        ("own features", scores.own, scores.known_own),
        ("with own averages by commune", scores.own_means, scores.known_means),
        ("with the private columns", scores.private, scores.known_private),
    ]


def conclusion(story: SpendingStory) -> str:
    """What it comes to, in two sentences."""
    scores = story.scores
    known = (
        "its own averages do better" if scores.known_means > scores.known_private else "the private columns do better, too"
    )
    return (
        f"In communes it has surveyed, {known} ({fixed(scores.known_means, 2)} against {fixed(scores.known_private, 2)}). "
        f"In communes it has not, R² goes from {fixed(scores.own, 2)} to {fixed(scores.private, 2)}: "
        f"{percent(scores.share)} of what the same columns would give without noise."
    )
