"""Spark for the contract tests, in this process and as a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.spark import local_session, needed_spark


@pytest.fixture(scope="module")
def local_spark() -> Iterator[Any]:
    """A session on two cores of this machine, whose tasks are tried again."""
    needed_spark()
    with local_session() as session:
        yield session
