"""What the first visitor after a start would wait for, done while nobody waits."""

from __future__ import annotations

import threading
from functools import cache

import pyarrow as pa

from saibot.platform.pages.render import pages
from saibot.privacy import Budget
from saibot.privacy.calibration import analytic_mu

SEEN_FIRST = ("catalogue.html", "dataset.html", "result.html")  # what most visitors open, and takes longest to compile


@cache
def prepare() -> None:
    """Once in a process, beside everything else."""
    threading.Thread(target=_prepare, name="saibot-prepare", daemon=True).start()


def _prepare() -> None:
    for name in SEEN_FIRST:
        pages().get_template(name)
    # Whoever reads a sketch needs libraries that load for half a second: Arrow's way to numbers, and what confirms a plan.
    pa.array([0]).to_numpy()
    analytic_mu(Budget("1", "1e-6"), touched=1)
