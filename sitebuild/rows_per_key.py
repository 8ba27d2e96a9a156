"""How many rows a key it takes, by the product's own `preview`: the table and the picture of the first page."""

from __future__ import annotations

from decimal import Decimal

from saibot.estimate.preview import Preview, preview
from saibot.privacy import Budget, Neighbours
from saibot.privacy.mechanisms import PlanRequest

KEYS = 1000  # any number gives nearly the same: noise is per key
EPSILONS = ("0.3", "1", "3", "10")
BEGIN, END = "<!-- rows per key: written by `make docs` -->", "<!-- end of rows per key -->"
CASES = {
    "one column": {},
    "two columns in one release": {"features": 2},
    "five columns in one release": {"features": 5},
    "one column, keys differ much": {"share": "strong"},
    "one column, keys differ little": {"share": "weak"},
    "one column, the number of rows protected, too": {"neighbours": Neighbours.ADD_REMOVE},
    "one column, two rows per individual": {"rows_per_individual": 2},
}
_STRENGTH = {"weak": 0.03, "moderate": 0.1, "strong": 0.3}


def expected(
    epsilon: str,
    *,
    rows_per_key: float = 100,
    features: int = 1,
    neighbours: Neighbours = Neighbours.REPLACE_ONE,
    rows_per_individual: int = 1,
) -> Preview:
    """What `saibot preview` says of such a release."""
    rows = round(rows_per_key * KEYS)
    request = PlanRequest(
        mechanism="joint",
        layout="lookup",
        features=features,
        bound_squared=Decimal(features),
        order=2,
        budget=Budget(epsilon, "1e-6"),
        neighbours=neighbours,
        row_count_public=neighbours is Neighbours.REPLACE_ONE and rows_per_individual == 1,
        rows_per_individual=rows_per_individual,
        rows=rows,
        keys=(KEYS,),
    )
    return preview(request, rows=rows, keys=(KEYS,))


def rows_for_half(epsilon: str, *, share: str = "moderate", **facts: object) -> float:
    """Rows per key at which half of the signal is left: noise against spread, so it goes with the root of the spread."""
    found = expected(epsilon, **facts).rows_for_half  # type: ignore[arg-type]
    assert found is not None
    return found * float((_STRENGTH["moderate"] / _STRENGTH[share]) ** 0.5)


def table() -> str:
    heads = " | ".join(f"ε = {epsilon}" for epsilon in EPSILONS)
    lines = [f"| rows per key at which half survives | {heads} |", "|---|" + "---:|" * len(EPSILONS)]
    for words, facts in CASES.items():
        cells = " | ".join(f"{rows_for_half(epsilon, **facts):.0f}" for epsilon in EPSILONS)  # type: ignore[arg-type]
        lines.append(f"| {words} | {cells} |")
    return "\n".join([BEGIN, "", *lines, "", END])


def written_into(page: str) -> str:
    """The first page with today's table in its place."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError("the first page has no place for the table of rows per key")
    return before + table() + after


def drawn() -> dict[str, bytes]:
    """The share that survives against rows per key, by epsilon; for light and for dark pages."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt
    import numpy as np

    from sitebuild.notebooks import INK, drawn_figure

    rows = np.geomspace(1, 1000, 121)
    figure, axes = plt.subplots(figsize=(8.2, 3.6), layout="constrained")
    for epsilon, colour in zip(EPSILONS, ("#d9731f", "#1594a0", "#6f93dd", "#8a97a3"), strict=True):
        half = rows_for_half(epsilon)
        left = rows**2 / (rows**2 + half**2)  # one level of keys: reliability as preview has it, of its own half
        axes.plot(rows, left, color=colour, linewidth=2.2)
        axes.annotate(f"ε = {epsilon}", (half, 0.5), (-8, 6), textcoords="offset points", ha="right", color=colour)
    axes.set(xscale="log", xlim=(1, 1000), ylim=(0, 1), xlabel="rows per key", ylabel="share of R² that survives")
    axes.set_xticks([1, 3, 10, 30, 100, 300, 1000], ["1", "3", "10", "30", "100", "300", "1,000"])
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.minorticks_off()
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    made = {scheme: drawn_figure(figure, ink, keep_text=True) for scheme, ink in INK.items()}
    plt.close(figure)
    return made
