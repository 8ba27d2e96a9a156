"""What `saibot serve` says of itself when it starts."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest

from saibot.cli import serve
from saibot.platform.logs import Log
from saibot.report import places


@pytest.mark.parametrize("lacks", [True, False])
def test_the_log_names_the_extras_that_maps_would_take_once_where_they_are_not_there(
    monkeypatch: pytest.MonkeyPatch, lacks: bool
) -> None:
    if lacks:
        monkeypatch.setattr(places, "map_file", lambda name: None)
    told = io.StringIO()
    platform = SimpleNamespace(settings=SimpleNamespace(pages=True), log=Log("info", told))
    app: Any = SimpleNamespace(state=SimpleNamespace(platform=platform))
    serve._say_what_is_missing(app)
    lines = [json.loads(line) for line in told.getvalue().splitlines()]
    assert [line["event"] for line in lines] == (["places are shown without maps"] if lacks else [])
    assert all("saibot[maps]" in line["hint"] for line in lines)
