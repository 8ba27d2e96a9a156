"""Lessons: what sketches of a key domain have in common is learned from those in the shards, and improves the values of all.

A hundred uploads in a row are one lesson, which begins when nothing has come for a while, or when it took too long. Searches
go on meanwhile with the values there are; of several servers one learns at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import select

from saibot.platform.errors import NotFound
from saibot.platform.jobs.heavy import heavy
from saibot.platform.jobs.process import WorkerProcess
from saibot.platform.storage.database import Database
from saibot.platform.storage.tables import datasets
from saibot.search.corpus import Corpus, PreparedValues
from saibot.search.learning import is_due
from saibot.wire import FactorsEntry

LIGHT_LESSON = 64 << 20  # bytes of shards that are learned from in seconds
LONGEST_LESSON = 1800.0  # seconds
LESSON_SECONDS = 5.0  # without an upload, before what was published is learned from
LESSON_DELAY = 600.0  # after which it is learned from in any case


class Lessons:
    """Bring the shared factors up to date: at once by `learn`, or as soon as it `is_time`."""

    def __init__(
        self,
        database: Database,
        folder: Path,
        *,
        is_light: Callable[[int], bool],
        install: Callable[[Sequence[PreparedValues]], None],
        sweep: Callable[[], None],
        cancelled: Callable[[], bool],
        memory: int | None = None,
    ) -> None:
        """`is_light` tells whether the shards are few and have at most so many bytes, `install` puts learned values in the
        place of those in use, and `sweep` deletes those that never were. `memory` bounds what a lesson may take.
        """
        self._database, self._folder = database, folder
        self._is_light, self._install, self._sweep, self._cancelled = is_light, install, sweep, cancelled
        self._teacher = WorkerProcess(memory=memory)
        self._lesson = threading.Lock()  # one at a time
        self._unlearned: float | None = None  # since when there is something that was packed and not learned from

    # -------------------------------------------------------------------------------------------- when

    def note_packing(self, moment: float) -> None:
        """What was packed from this moment on nobody has learned from."""
        self._unlearned = moment if self._unlearned is None else self._unlearned

    @property
    def pause(self) -> float | None:
        """Seconds without an upload after which a lesson begins; None where there is nothing to learn from."""
        return None if self._unlearned is None else LESSON_SECONDS

    def is_time(self, *, paused: bool) -> bool:
        """Whether a lesson begins now, after uploads have `paused` or not."""
        return self._unlearned is not None and (paused or time.monotonic() - self._unlearned > LESSON_DELAY)

    # -------------------------------------------------------------------------------------------- what is in use

    def factors(self) -> list[FactorsEntry]:
        """The shared factors that are in use."""
        corpus = Corpus(self._folder)
        found = [(id, corpus.factors(id)) for id in corpus.key_ids]
        return [
            FactorsEntry(
                key=id,
                version=shared.version,
                bytes=len(shared.content),
                factors=shared.rank,
                sketches=len(shared.taught),
            )
            for id, shared in found
            if shared is not None and shared.rank
        ]

    def open_factors(self, version: str) -> BinaryIO:
        """Their file, also of an earlier version that is still kept."""
        try:
            return (self._folder / "factors" / f"{version}.arrow").open("rb")
        except FileNotFoundError:
            hint = "GET /v1/factors names those in use."
            raise NotFound("there are no shared factors of this version.", hint=hint) from None

    # -------------------------------------------------------------------------------------------- learning

    def learn_if_due(self) -> None:
        self._unlearned = None
        corpus, teachers = Corpus(self._folder), self._teachers()
        if any(is_due(corpus, id, teachers) for id in corpus.key_ids):
            self.learn()

    def learn(self) -> list[str]:
        """Bring the shared factors up to date, in a process of its own; searches go on with those there are.

        Restricted datasets learn and do not teach, and neither do open ones whose source nobody has confirmed. Which key
        domains there was something to learn about.
        """
        with self._lesson, self._database.trying("lesson") as is_mine:
            return self._learn() if is_mine else []  # else another server learns

    def close(self) -> None:
        self._teacher.stop()

    def _learn(self) -> list[str]:
        in_use = (datasets.c.state == "live") & datasets.c.copy_of.is_(None)
        with self._database.read() as connection:
            rows = connection.execute(select(datasets.c.digest, datasets.c.provider).where(in_use)).all()
        providers = {row.digest: row.provider for row in rows}
        task = {"folder": str(self._folder), "providers": providers, "teachers": sorted(self._teachers())}
        if self._is_light(LIGHT_LESSON):  # soon over: nobody's file waits long for it, and one process has much at a time
            outcome = heavy().run({"learn": task}, cancelled=self._cancelled, seconds=LONGEST_LESSON)
        else:
            outcome = self._teacher.run(
                {"learn": task}, progress=lambda *_: None, cancelled=self._cancelled, seconds=LONGEST_LESSON
            )
        if outcome.status == "cancelled":
            return []  # the next start sweeps
        try:
            if outcome.status != "done":
                raise RuntimeError("the process that learns did not finish")
            prepared = [PreparedValues(**one) for one in outcome.answer["prepared"]]
            self._install(prepared)
        except Exception:
            self._sweep()  # what it wrote has values also of what was withdrawn meanwhile
            raise
        return [one.key for one in prepared]

    def _teachers(self) -> set[str]:
        """Digests of the sketches that may teach."""
        may = (datasets.c.state == "live") & (datasets.c.visibility == "public") & datasets.c.teaches
        may &= datasets.c.copy_of.is_(None)  # a copy teaches nothing that its original does not
        with self._database.read() as connection:
            return {row.digest for row in connection.execute(select(datasets.c.digest).where(may))}
