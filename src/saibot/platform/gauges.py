"""Numbers that are looked up whenever somebody asks for the metrics; the others are counted as things happen."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sized
from pathlib import Path

from sqlalchemy import func, select

from saibot.platform.jobs.lacking import lacking
from saibot.platform.metrics import Metrics
from saibot.platform.storage.database import Database, SQLAlchemyError
from saibot.platform.storage.tables import datasets


def add_gauges(
    metrics: Metrics,
    database: Database,
    data: Path,
    *,
    under_way: Callable[[], float],
    alive: Callable[[], float],
    left_out: Sized,
) -> None:
    """`under_way` counts searches, `alive` processes that search, and `left_out` are datasets that cannot be packed."""
    metrics.gauge("datasets", "Datasets published.", lambda: _or_nan(lambda: _public_datasets(database)))
    metrics.gauge("searches_under_way", "Searches queued or running.", lambda: _or_nan(under_way))
    metrics.gauge("workers_alive", "Processes that search.", alive)
    free = lambda: float(shutil.disk_usage(data).free)  # noqa: E731
    metrics.gauge("disk_free_bytes", "Bytes free where the platform keeps its data.", free)
    metrics.gauge("left_out", "Datasets that no search sees: they cannot be packed.", lambda: len(left_out))
    unconfined = "Parts of their confinement that workers go without, as far as any has worked."
    metrics.gauge("not_confined", unconfined, lambda: float(len(lacking.parts or ())))


def _public_datasets(database: Database) -> float:
    # Anybody may read the metrics, so they tell nothing of restricted datasets.
    shown = (datasets.c.state == "live") & (datasets.c.visibility == "public")
    with database.read() as connection:
        return float(connection.execute(select(func.count()).select_from(datasets).where(shown)).scalar_one())


def _or_nan(count: Callable[[], float]) -> float:
    try:
        return float(count())
    except SQLAlchemyError:
        return math.nan  # the other numbers are wanted most when the database is away
