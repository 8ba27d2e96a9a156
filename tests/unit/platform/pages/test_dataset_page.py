"""The page of a dataset says by which keys its table is there, and what its whole account has cost."""

from __future__ import annotations

import html
import re
from pathlib import Path

import httpx

from saibot.client.in_process import running
from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.api.app import app_of
from saibot.platform.service import open_platform

GOLDEN = Path(__file__).parents[3] / "contract" / "golden"


def test_a_page_tells_the_other_keys_and_the_total_where_the_sketch_says_so(tmp_path: Path) -> None:
    platform = open_platform(Settings(data=tmp_path / "data", accept_unsafe=True, workers=1, log_level="error"))
    provider = Caller("clinic", frozenset({"provider"}), "t")
    with running(app_of(platform)) as transport:
        client = httpx.Client(transport=transport, base_url="http://platform.example")

        def page(name: str) -> str:
            id = platform.accept(provider, (GOLDEN / f"{name}.saibot").read_bytes())[0].id
            return " ".join(html.unescape(re.sub("<[^>]+>", " ", client.get(f"/datasets/{id}").text)).split())

        old = page("semiring-composite")
        assert "Budget ε 1" in old and "together have cost" not in old and "also by" not in old
        first = page("v2-lookup-levels")
        assert "also by port_weekday" in first
        assert "all sketches of this account together have cost ε 1, δ 10⁻⁶" in first
        second = page("v2-semiring-composite")
        assert "also by day" in second and "together have cost ε 1.46, δ 10⁻⁶" in second
