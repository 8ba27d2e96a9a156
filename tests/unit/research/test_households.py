"""The household case on made-up tables of the same shape: what guided providers publish helps a requester on unseen keys."""

from __future__ import annotations

import numpy as np
import pandas as pd

from research.real.households import COMMUNES, OWN, Survey, run


def made_up() -> Survey:
    rng = np.random.default_rng(8)
    wealth = rng.normal(0, 1, COMMUNES + 1)

    def communes(rows: int) -> np.ndarray:
        return rng.integers(1, COMMUNES + 1, rows)

    c = communes(9000)
    homes = pd.DataFrame({"commune": c, "educyr": rng.normal(7 + 2 * wealth[c], 2), "hhsize": rng.integers(1, 9, 9000)})
    homes["age"] = rng.normal(48, 14, 9000)
    for name in ("farm", "urban"):
        homes[name] = np.where(rng.normal(wealth[c], 0.7) > 0, "yes", "no")
    p = communes(6000)
    people = pd.DataFrame({"commune": p, "lnhhexp": wealth[p] + rng.normal(0, 1, 6000)})
    return Survey(homes, people.assign(**{name: rng.normal(0, 1, 6000) for name in OWN}))


def test_one_command_line_for_each_provider_is_worth_most_of_the_raw_columns() -> None:
    found = run(made_up(), seed=0)
    assert found.columns and abs(found.own) < 0.02
    assert found.guided > 0.6 * found.raw > 0.2
