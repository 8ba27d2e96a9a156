"""A platform inside this process: the same answers as from a server, in a folder that outlives it if one is given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from saibot.client import NotAllowed, Provider, Requester
from saibot.embedded import embedded
from saibot.errors import SaibotError
from saibot.privatize import Card

WARDS = list("ABCDEFGH")


def card(name: str, feature: str) -> Card:
    return Card.parse({
        "dataset": {"name": name, "neighbours": "replace-one"},
        "features": {feature: {"bounds": [0, 10]}},
        "keys": {"ward": {"domain": {"values": WARDS, "id": "wards"}}},
    })  # fmt: skip


def rows(feature: str, count: int, seed: int, noise: float) -> pd.DataFrame:
    level = dict(zip(WARDS, np.linspace(1, 9, len(WARDS)), strict=True))
    rng = np.random.default_rng(seed)
    wards = rng.choice(WARDS, count)
    return pd.DataFrame({"ward": wards, feature: [level[ward] for ward in wards] + rng.normal(0, noise, count)})


def test_publish_search_and_augment_without_any_network(saibot_home, tmp_path):
    with embedded(tmp_path / "platform") as platform:
        provider = Provider(platform.as_account("clinic", ["provider"]), saibot_home)
        facts = card("stays", "nights")
        sketch = provider.privatize(rows("nights", 8000, 0, 0.5), facts, epsilon="1", key="ward")
        published = provider.publish(sketch, card=facts)
        requester = Requester(platform.as_account("analyst", ["requester"]), saibot_home, cache=tmp_path / "cache")
        own = rows("cost", 3000, 1, 2.0)
        parts = requester.split(own, test="0.33")
        stages: list[str] = []
        found = requester.search(
            parts.train,
            parts.test,
            target="cost",
            key="ward",
            card=card("costs", "cost"),
            epsilon="1",
            split=parts.id,
            progress=lambda stage, part: stages.append(stage),
        )
        assert found.columns == ("stays.nights",) and found.result.private
        assert "waiting for the platform" in stages
        local = requester.search(own[:2000], own[2000:], target="cost", key="ward", local=True)
        assert local.columns == ("stays.nights",)
        np.testing.assert_allclose(found.augment(own)["stays.nights"], local.augment(own)["stays.nights"], rtol=1e-5)
        provider.withdraw(published.id)
        assert provider.datasets() == []


def test_a_folder_is_found_again_with_all_that_is_in_it(tmp_path):
    with embedded(tmp_path) as platform:
        clinic = platform.as_account("clinic", ["provider"])
        token = clinic.wire.token
    with embedded(tmp_path) as platform:
        assert {one.name for one in platform.tokens()} == {"admin", "clinic"}
        assert platform.with_token(token).me().roles == ("provider",)
        with pytest.raises(NotAllowed):
            platform.with_token("saibot_nobody").me()


def test_the_environment_of_a_server_does_not_reach_an_embedded_platform(tmp_path, monkeypatch):
    monkeypatch.setenv("SAIBOT_DATABASE", "postgresql://nowhere.invalid/x")
    with embedded(tmp_path) as platform:
        assert platform.healthy()


def test_a_folder_whose_token_is_gone_says_so(tmp_path: Path):
    with embedded(tmp_path):
        pass
    (tmp_path / "admin-token").unlink()
    with pytest.raises(SaibotError, match="no admin token"), embedded(tmp_path):
        pass
