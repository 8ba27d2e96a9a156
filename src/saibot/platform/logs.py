"""Structured logs: one JSON object a line. Ids, names and times; never a token, a body or a cell.

Of an exception its type and the lines it passed are logged, but not its message, which may quote what was being handled.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any, TextIO

import structlog

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Log:
    """What the platform writes about itself."""

    def __init__(self, level: str = "info", stream: TextIO | None = None) -> None:
        self._logger: Any = structlog.wrap_logger(
            structlog.PrintLogger(stream or sys.stderr),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.JSONRenderer(),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        )

    def info(self, event: str, **facts: Any) -> None:
        self._logger.info(event, **facts)

    def warning(self, event: str, **facts: Any) -> None:
        self._logger.warning(event, **facts)

    def failure(self, event: str, problem: BaseException, **facts: Any) -> None:
        frames = traceback.extract_tb(problem.__traceback__)
        places = [f"{frame.filename.rsplit('saibot/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in frames[-12:]]
        self._logger.error(event, problem=type(problem).__name__, at=places, **facts)
