"""The lines of Python on a dataset's page, which people copy and run."""

from __future__ import annotations

import ast
import html
import re
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest

from saibot.platform import Settings
from saibot.platform.api.app import app_of
from saibot.platform.pages.views.dataset import _snippet
from saibot.platform.service import open_platform
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, privatize
from saibot.sketch import write_sketch
from tests.support.serving import ADMIN, listening, signed_in

SHOPS, DAYS = [f"S{i}" for i in range(6)], [f"2024-01-{day:02d}" for day in range(1, 11)]
CARD = {
    "dataset": {"name": "tills", "individual": "one receipt", "neighbours": "replace-one"},
    "budget": {"cap": {"epsilon": "1000", "delta": "1e-5"}},
    "features": {"level": {"bounds": [0, 100]}},
    "keys": {
        "shop": {"column": "at", "domain": {"values": SHOPS, "id": "shops"}},
        "day": {"column": "on", "domain": {"dates": [DAYS[0], DAYS[-1]]}},
        "shop_day": {"parts": ["shop", "day"]},
    },
}


def test_a_providers_names_are_no_code_in_the_lines_to_copy() -> None:
    name = 'x"); __import__("os").system("id") #\n\'\\'
    for parts in ([{"name": name}], [{"name": name}, {"name": "day"}]):
        dataset = {"key": {"name": "both", "parts": parts}, "visibility": "granted"}
        tree = ast.parse(_snippet("https://platform.example", dataset))
        called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        assert {ast.unparse(call) for call in called} == {"Requester", "Platform", "requester.search"}
        assert name in [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]


@pytest.mark.parametrize("key", ["shop", "shop_day", None])
def test_the_lines_run_as_they_stand_and_find_the_dataset(
    key: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copied from the page into a folder with `mine.csv`, whose columns are called like the parts of the key."""
    rng = np.random.default_rng(5)
    levels = rng.uniform(20, 80, (len(SHOPS), len(DAYS)))

    def table(rows: int, at: str, on: str, value: str) -> pd.DataFrame:
        shop, day = rng.integers(0, len(SHOPS), rows), rng.integers(0, len(DAYS), rows)
        level = levels[shop, day] + rng.normal(0, 1, rows)
        return pd.DataFrame({at: np.array(SHOPS)[shop], on: np.array(DAYS)[day], value: np.clip(level, 0, 100)})

    release = ReleaseRequest(Card.parse(CARD), Budget("200", "1e-6"), Neighbours.REPLACE_ONE, key=key)
    sketch = privatize(table(3000, "at", "on", "level"), release, Ledger(tmp_path / "ledger")).sketch
    platform = open_platform(Settings(data=tmp_path / "data", workers=1, log_level="error"))
    tokens = {role: platform.accounts.create(ADMIN, role, [role]).token for role in ("provider", "requester")}
    provider = platform.accounts.caller_of(tokens["provider"])
    dataset, _ = platform.accept(provider, write_sketch(sketch), visibility="restricted")
    table(500, "shop", "day", "y" if key else "level").to_csv(tmp_path / "mine.csv", index=False)
    with listening(app_of(platform)) as address, httpx.Client(base_url=address, timeout=60) as browser:
        browser.cookies.set("saibot_session", signed_in(browser, tokens["requester"]))
        page = browser.get(f"/datasets/{dataset.id}").text
        lines = re.search(r'aria-label="Python code"><code>(.*?)</code>', page, re.DOTALL)
        assert lines is not None
        text = html.unescape(lines[1]).replace("saibot_...", tokens["requester"])
        monkeypatch.setenv("SAIBOT_HOME", str(tmp_path / "home"))
        monkeypatch.chdir(tmp_path)
        named: dict[str, Any] = {}
        exec(text, named)
    taken = [step.digest for step in named["found"].result.steps]
    assert taken == ([dataset.digest] if key else []), "without a key there are only rows to add, and here no need of them"
