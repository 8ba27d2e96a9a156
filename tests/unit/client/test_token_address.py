"""A token goes to the one address that it was given for."""

from __future__ import annotations

from pathlib import Path

import pytest

from saibot.client.config import Config, connect

HOME, OTHER = "https://saibot.example.org", "https://elsewhere.example.org"
TOKEN = "saibot_given"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAIBOT_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("SAIBOT_TOKEN", TOKEN)
    monkeypatch.delenv("SAIBOT_PLATFORM", raising=False)


def test_the_token_of_the_environment_is_not_sent_to_an_address_that_a_file_names() -> None:
    assert connect(OTHER, typed=False).wire.token is None


def test_beside_a_platform_in_the_environment_it_goes_there_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAIBOT_PLATFORM", HOME + "/")
    assert connect().wire.token == TOKEN and connect(HOME, typed=False).wire.token == TOKEN
    assert connect(OTHER).wire.token is None and connect(OTHER, typed=False).wire.token is None


def test_where_a_default_platform_is_known_it_goes_there_alone() -> None:
    Config().logged_in(HOME, None).logged_in(HOME, "saibot_own").write()
    assert connect(HOME).wire.token == TOKEN
    assert connect(OTHER).wire.token is None


def test_without_any_other_word_it_goes_to_what_its_user_types() -> None:
    assert connect(OTHER).wire.token == TOKEN


def test_a_token_of_saibot_login_goes_to_its_own_address_wherever_that_is_named() -> None:
    Config(None, {OTHER: "saibot_own"}).write()
    assert connect(OTHER, typed=False).wire.token == "saibot_own"
