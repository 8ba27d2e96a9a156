"""The page of a dataset says by which keys its table is there, and what its whole account has cost."""

from __future__ import annotations

import html
import re
from pathlib import Path

import httpx
import pytest

from saibot.client.in_process import running
from saibot.platform import Settings, shown_sketches
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


def test_values_of_a_large_sketch_are_shown_one_feature_at_a_time_or_the_page_says_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown_sketches, "SHOWN_BYTES", 0)
    platform = open_platform(Settings(data=tmp_path / "data", accept_unsafe=True, workers=1, log_level="error"))
    provider = Caller("clinic", frozenset({"provider"}), "t")
    with running(app_of(platform)) as transport:
        client = httpx.Client(transport=transport, base_url="http://platform.example")
        dataset = platform.accept(provider, (GOLDEN / "v2-lookup-levels.saibot").read_bytes())[0]
        first, second = (feature.name for feature in dataset.features[:2])

        def page(query: str = "") -> str:
            return html.unescape(client.get(f"/datasets/{dataset.id}{query}").text)

        assert f'data-feature="{first}"' in page() and f'data-pick="{second}"' in page()
        other = page(f"?feature={second}")
        assert f'data-feature="{second}"' in other and "All keys, this feature:" in other
        assert "Keys with rows" in other and "there is no profile" not in other
        lines = client.get(f"/datasets/{dataset.id}/values.csv?feature={second}").text.splitlines()
        assert lines[0].removeprefix("\ufeff").split(",")[1:] == ["rows", second, f"{second} error"]
        monkeypatch.setattr(shown_sketches, "MOST_KEYS", 3)
        platform.key_values._remembered.clear()
        refused = page()
        assert "This sketch has more than 3 keys" in refused and "Download the sketch" in refused
        assert "<code>saibot inspect</code>" in refused and "What it says of each key" in refused
        answer = client.get(f"/datasets/{dataset.id}/rows")
        assert answer.status_code == 422 and "more than 3 keys" in answer.text
