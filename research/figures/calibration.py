"""Ours: how much noise (epsilon, delta) asks for, by four calibrations of the same Gaussian mechanism.

`classical` is the paper's, proved up to epsilon = 1 only. `zcdp` goes by concentrated differential privacy, as a library
that reports rho would. `analytic` is the exact condition for continuous noise, `integer` the same for the noise that is
really drawn, on an integer grid, with the price of the grid included. sigma is in units of the sensitivity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Drawing

from research.baselines.scales import classical_mu, continuous_mu, zcdp_mu
from research.reproducing import plotting as plot
from research.reproducing.expectations import holds
from research.reproducing.figure import Check, Figure, RunConfig
from saibot.privacy import Budget
from saibot.privacy.calibration import analytic_mu

EPSILONS = ("0.05", "0.1", "0.2", "0.3", "0.5", "0.7", "1", "1.5", "2", "3", "5", "8")
DELTAS = ("1e-6", "1e-9")
TOUCHED = 300  # numbers that one individual can move: a keyed sketch of a dozen features
LABELS = {
    "classical": ("classical (paper), proved to ε = 1", "#D55E00", "s"),
    "zcdp": ("by zCDP", "#E69F00", "^"),
    "integer": ("analytic, integer noise (ours)", "#009E73", "P"),
    "analytic": ("analytic, continuous noise", "#222222", "."),
}


def run(config: RunConfig) -> pd.DataFrame:
    rows = []
    for number, epsilon in enumerate(EPSILONS):
        config.progress(f"epsilon = {epsilon}", number / len(EPSILONS))
        for delta in DELTAS:
            e, d = float(epsilon), float(delta)
            mu = {"zcdp": zcdp_mu(e, d), "analytic": continuous_mu(e, d)}
            mu["integer"] = analytic_mu(Budget(epsilon, delta), touched=TOUCHED)
            if e <= 1:
                mu["classical"] = classical_mu(e, d)
            rows += [{"method": method, "epsilon": e, "delta": d, "sigma": 1 / value} for method, value in mu.items()]
    return pd.DataFrame(rows)


def draw(frame: pd.DataFrame) -> Drawing:
    drawing, panels = plot.canvas(2, width=4.1, height=3.6)
    for axes, relative in zip(panels, (False, True), strict=True):
        for delta, dash in zip(sorted(frame["delta"].unique(), reverse=True), ("-", "--"), strict=True):
            part = frame[frame["delta"] == delta].pivot(index="epsilon", columns="method", values="sigma")
            for method, (text, colour, marker) in LABELS.items():
                line = (part[method] / part["analytic"] if relative else part[method]).dropna()
                label = text if dash == "-" else None
                size = 4.5 if dash == "-" else 3
                axes.plot(line.index, line, dash, color=colour, marker=marker, ms=size, lw=1.4, label=label)
        plot.log_ticks(axes, (0.05, 0.1, 0.2, 0.5, 1, 2, 5))
        if not relative:
            plot.log_ticks(axes, (1, 2, 5, 10, 20, 50, 100, 200), which="y")
    panels[0].plot([], [], "--", color="#777777", label="the same at δ = 1e-9")
    plot.label(panels[0], x="ε", y="σ / sensitivity", title="noise, δ = 1e-6")
    plot.label(panels[1], x="ε", y="σ / σ of the exact condition", title="and what the others waste")
    plot.legend_outside(drawing, panels[0])
    return drawing


def check(frame: pd.DataFrame) -> list[Check]:
    sigma = {(row["method"], row["epsilon"], row["delta"]): row["sigma"] for _, row in frame.iterrows()}
    exact, classical = sigma["analytic", 1.0, 1e-6], sigma["classical", 1.0, 1e-6]
    by_zcdp, integer = sigma["zcdp", 1.0, 1e-6], sigma["integer", 1.0, 1e-6]
    at = "at ε = 1, δ = 1e-6"
    grid = np.max([sigma["integer", e, d] / sigma["analytic", e, d] for m, e, d in sigma if m == "integer"])
    return [
        holds("classical needs a quarter more noise", 1.2 < classical / exact < 1.3, f"{classical / exact:.3f} times {at}"),
        holds("zCDP needs 7 % more", 1.05 < by_zcdp / exact < 1.09, f"{by_zcdp / exact:.3f} times {at}"),
        holds("the integer grid costs next to nothing", integer / exact < 1.0001, f"{integer / exact - 1:.1e} {at}"),
        holds("and little at any budget here", grid < 1.001, f"at most {grid - 1:.1e}"),
    ]


def _settings(config: RunConfig) -> dict[str, Any]:
    return {"epsilons": list(EPSILONS), "deltas": list(DELTAS), "touched": TOUCHED}


FIGURES = {
    "calibration": Figure(
        name="calibration",
        title="From a budget to a noise level",
        shows="The exact condition for the Gaussian mechanism asks for a fifth less noise than the classical formula, holds "
        "for every ε, and the integer noise that is really drawn meets it at practically no cost.",
        run=run,
        draw=draw,
        check=check,
        settings=_settings,
    )
}
