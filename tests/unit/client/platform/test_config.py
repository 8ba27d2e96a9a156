"""Where the platform's address and the token come from, and where a token is kept."""

from __future__ import annotations

import stat

import pytest

from saibot.client import Config, connect
from saibot.client.config import config_path
from saibot.errors import InvalidInput


def test_what_was_logged_in_to_is_the_default(saibot_home):
    path = Config.read().logged_in("http://one.test/", "saibot_1").write()
    assert path == saibot_home / "config.toml"
    platform = connect()
    assert platform.url == "http://one.test" and platform.wire.token == "saibot_1"


def test_only_its_owner_may_read_the_file(saibot_home):
    path = Config().logged_in("http://one.test", "saibot_1").write()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_token_is_sent_to_the_platform_it_is_for_and_to_no_other(saibot_home):
    Config().logged_in("http://one.test", "saibot_1").logged_in("http://two.test", "saibot_2").write()
    assert connect("http://one.test").wire.token == "saibot_1"
    assert connect("http://two.test/").wire.token == "saibot_2"
    assert connect("http://three.test").wire.token is None


def test_variables_come_before_the_file_and_arguments_before_both(saibot_home, monkeypatch):
    Config().logged_in("http://one.test", "saibot_1").write()
    monkeypatch.setenv("SAIBOT_PLATFORM", "http://two.test")
    monkeypatch.setenv("SAIBOT_TOKEN", "saibot_2")
    assert (connect().url, connect().wire.token) == ("http://two.test", "saibot_2")
    third = connect("http://three.test", "saibot_3")
    assert (third.url, third.wire.token) == ("http://three.test", "saibot_3")


def test_logging_out_forgets_the_token(saibot_home):
    Config().logged_in("http://one.test", "saibot_1").write()
    path = Config.read().logged_out("http://one.test").write()
    assert "saibot_1" not in path.read_text() and Config.read().platform is None


def test_a_config_does_not_show_its_tokens():
    assert "saibot_1" not in repr(Config().logged_in("http://one.test", "saibot_1"))


def test_without_any_address_the_error_says_how_to_give_one(saibot_home, monkeypatch):
    monkeypatch.delenv("SAIBOT_PLATFORM", raising=False)
    with pytest.raises(InvalidInput, match="saibot login"):
        connect()


@pytest.mark.parametrize("text", ["platform = 3", "tokens = 'x'", "[tokens]\n'http://x.test' = 1", "= nonsense"])
def test_a_damaged_file_is_named(saibot_home, text):
    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text(text)
    with pytest.raises(InvalidInput, match=r"config\.toml"):
        Config.read()
