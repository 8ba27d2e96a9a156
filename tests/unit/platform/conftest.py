"""A platform without HTTP, and small sketches with simulated noise that it is told to accept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.service import Platform
from saibot.sketch import Sketch, read_sketch, write_sketch
from tests.support.fabricating import drawn_anew

GOLDEN = Path(__file__).parents[2] / "contract" / "golden"


@pytest.fixture(autouse=True)
def no_lesson_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it would come in the middle of another test; test_lessons says when it is to."""
    monkeypatch.setattr("saibot.platform.lessons.LESSON_SECONDS", 600.0)


@pytest.fixture(scope="session")
def provider() -> Caller:
    return Caller("clinic", frozenset({"provider"}), "t-clinic")


@pytest.fixture(scope="session")
def named() -> Callable[..., bytes]:
    """named("x"): the golden sketch with key levels under another name, and with numbers that go with it: no copy."""
    base = read_sketch(GOLDEN / "lookup-levels.saibot")

    def make(name: str, *, title: str = "") -> bytes:
        dataset = base.header.dataset.model_copy(update={"name": name, "title": title})
        made = Sketch(base.header.model_copy(update={"dataset": dataset}), base.levels)
        return write_sketch(drawn_anew(made, f"{name} {title}"))

    return make


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path / "data", workers=1, pages=False, accept_unsafe=True, log_level="error")


@pytest.fixture
def platform(settings: Settings) -> Iterator[Platform]:
    platform = Platform(settings)
    yield platform
    platform.close()
