"""The guide for whoever runs a platform names settings, metrics and commands; they have to be there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from saibot.platform import Settings
from saibot.platform.metrics import Metrics

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "run-a-platform.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(set(re.findall(r"SAIBOT_([A-Z_]+)|`_([A-Z_]+)`", TEXT))))
def test_every_setting_that_is_named_exists(name: tuple[str, str]) -> None:
    whole, ending = name
    known = {field.upper() for field in Settings.model_fields}
    assert whole in known if whole else any(field.endswith(ending) for field in known)


def test_the_metrics_that_are_named_are_those_there_are() -> None:
    metrics = Metrics()
    for name in ("datasets", "not_confined"):
        metrics.gauge(name, "", lambda: 0.0)
    there = set(re.findall(r"^# TYPE (\w+) (?:counter|gauge|histogram)$", metrics.text().decode(), flags=re.MULTILINE))
    named = set(re.findall(r"`(saibot_\w+)", TEXT))
    assert named == {name for name in there if not name.endswith("_created")}


def test_the_proxy_lets_the_largest_search_pass_and_not_much_more() -> None:
    found = re.search(r"client_max_body_size (\d+)m;", TEXT)
    assert found is not None
    largest = 2 * Settings.model_fields["max_upload_bytes"].default
    assert largest < int(found[1]) << 20 < largest + (3 << 20)
