"""What somebody hears who asks for a report without the packages that make one."""

from __future__ import annotations

from saibot.errors import InvalidInput
from saibot.extras import how_to_install


def missing(problem: ImportError) -> InvalidInput:
    return InvalidInput(f"reports and pictures need the package {problem.name!r}.", hint=how_to_install("report"))
