"""Ctrl-C is said in one line, whatever it interrupts."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from saibot.cli import app
from saibot.errors import InvalidTable


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)
    app._stopping.clear()


@pytest.mark.parametrize("command, spends", [("privatize", True), ("serve", False)])
def test_an_engine_that_was_interrupted_has_read_no_broken_table(
    command: str, spends: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """DuckDB drops what a signal raised, and raises an error of its own."""

    def interrupted() -> None:
        with suppress(app.Stopped):
            signal.raise_signal(signal.SIGINT)
        raise InvalidTable("the table cannot be read (RuntimeError).")

    monkeypatch.setattr(app, "app", interrupted)
    monkeypatch.setattr("sys.argv", ["saibot", command])
    with pytest.raises(SystemExit) as ended:
        app.main()
    said = capsys.readouterr().err
    assert ended.value.code == 130 and said.startswith("stopped.") and "cannot be read" not in said
    assert ("stays charged" in said) is spends
