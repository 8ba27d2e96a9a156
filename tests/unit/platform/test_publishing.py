"""What a publication changes, what it leaves alone, and what a refused one leaves behind: nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from saibot.platform import Settings
from saibot.platform.accounts import Caller
from saibot.platform.errors import OverQuota, Unusable
from saibot.platform.service import Platform
from saibot.sketch import LevelTable, Sketch, read_sketch, write_sketch

Named = Callable[..., bytes]


def forged(content: bytes, **changes: Any) -> bytes:
    sketch = read_sketch(content)
    return write_sketch(replace(sketch, header=sketch.header.model_copy(update=changes)).sealed())


def test_a_new_version_stays_as_visible_as_the_dataset_was(platform: Platform, provider: Caller, named: Named) -> None:
    until = (datetime.now(UTC).date() + timedelta(30)).isoformat()
    first, _ = platform.accept(provider, named("kept", title="one"), visibility="restricted", expires=until)
    same, is_new = platform.accept(provider, named("kept", title="one"))
    assert same == first and not is_new
    second, is_new = platform.accept(provider, named("kept", title="two"))
    assert is_new and (second.visibility, second.expires) == ("restricted", until)
    public, _ = platform.accept(provider, named("kept", title="two"), visibility="public")
    assert (public.visibility, public.expires) == ("public", until)
    assert platform.accept(provider, named("new"))[0].visibility == "public"


def test_an_upload_over_quota_leaves_no_file(settings: Settings, provider: Caller, named: Named) -> None:
    platform = Platform(settings.model_copy(update={"bytes_per_provider": 1, "domains_per_provider": 0}))
    with pytest.raises(OverQuota):
        platform.accept(provider, named("large"))
    with pytest.raises(OverQuota):
        platform.domains.register(provider, "towns", 1, b"town\nBerne\n")
    assert list(platform.files.names()) == []
    platform.close()


def test_a_publication_that_fails_leaves_no_file_but_those_of_others(
    platform: Platform, provider: Caller, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.accept(provider, named("shared"))
    kept = list(platform.files.names())

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no space left")

    monkeypatch.setattr(platform.publishing, "_store", fail)
    monkeypatch.setattr(platform.domains, "_insert", fail)
    for caller, name in ((provider, "lost"), (Caller("other", frozenset({"provider"}), "t2"), "shared")):
        with pytest.raises(RuntimeError):
            platform.accept(caller, named(name))
    with pytest.raises(RuntimeError):
        platform.domains.register(provider, "towns", 1, b"town\nBerne\n")
    assert list(platform.files.names()) == kept


def test_no_text_of_a_sketch_may_command_a_terminal_or_turn_around(
    platform: Platform, provider: Caller, named: Named
) -> None:
    content = named("evil")
    sketch = read_sketch(content)
    steps = sketch.header.preparation.model_copy(update={"steps": ("\x1b[2J bounds bought",)})
    weights = sketch.header.features[0].model_copy(update={"weights": {"a\x07": 1.0}})
    level = sketch.levels[0]
    keys = tuple(np.array([f"\x1b{key}" for key in column], object) for column in level.keys)
    other_keys = Sketch(sketch.header, (LevelTable(keys, level.values), *sketch.levels[1:])).sealed()
    for bad in (
        named("evil", title="safe \u202e gnp.exe"),
        forged(content, preparation=steps),
        forged(content, features=(weights, *sketch.header.features[1:])),
        write_sketch(other_keys),
    ):
        with pytest.raises(Unusable, match=r"control characters|header is not valid"):
            platform.accept(provider, bad)
    platform.accept(provider, content)


def test_the_metrics_count_public_datasets_alone(platform: Platform, provider: Caller, named: Named) -> None:
    platform.accept(provider, named("seen"))
    platform.accept(provider, named("hidden"), visibility="restricted")
    assert "saibot_datasets 1.0\n" in platform.metrics.text().decode()
