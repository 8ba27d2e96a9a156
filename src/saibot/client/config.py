"""Where this user's platform is and what lets them in: options first, then SAIBOT_PLATFORM and SAIBOT_TOKEN, then a file.

The file is TOML that only its owner may read. A token stands under the address it was given for and is sent to no other.
"""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from saibot.client.platform import Platform
from saibot.client.transport import checked_token, checked_url
from saibot.errors import InvalidInput
from saibot.safe_file import write_safely


def config_path() -> Path:
    """`$SAIBOT_CONFIG`, or `config.toml` in `$SAIBOT_HOME`, or in the user's configuration folder."""
    from platformdirs import user_config_path

    if chosen := os.environ.get("SAIBOT_CONFIG"):
        return Path(chosen)
    if home := os.environ.get("SAIBOT_HOME"):
        return Path(home) / "config.toml"
    return user_config_path("saibot") / "config.toml"


@dataclass(frozen=True)
class Config:
    """The default platform, and a token for each platform there is one for."""

    platform: str | None = None
    tokens: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, path: Path | None = None) -> Self:
        """What the file says; an absent file says nothing."""
        where = path or config_path()
        try:
            document = tomllib.loads(where.read_text(encoding="utf-8"))
            platform, tokens = document.get("platform"), document.get("tokens", {})
            if not isinstance(platform, str | None) or not all(isinstance(token, str) for token in tokens.values()):
                raise ValueError
        except FileNotFoundError:
            return cls()
        except (ValueError, AttributeError, OSError):
            raise InvalidInput(
                f"the configuration {where} cannot be read.", hint="Correct it, or remove it and `saibot login` again."
            ) from None
        return cls(platform, dict(tokens))

    def write(self, path: Path | None = None) -> Path:
        """Replace the file, readable by its owner only from the first byte on."""
        where = path or config_path()
        where.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lines = ["# Written by `saibot login`. Whoever reads the tokens can use them.\n"]
        if self.platform is not None:
            lines.append(f"platform = {_text(self.platform)}\n")
        if self.tokens:
            lines.append("\n[tokens]\n")
            lines += [f"{_text(url)} = {_text(token)}\n" for url, token in sorted(self.tokens.items())]
        write_safely(where, "".join(lines).encode())
        return where

    def logged_in(self, url: str, token: str | None) -> Config:
        """With this platform as the default, and its token."""
        address = checked_url(url)
        tokens = {at: kept for at, kept in self.tokens.items() if at != address}
        if token is not None:
            tokens[address] = checked_token(token)
        return Config(address, tokens)

    def logged_out(self, url: str) -> Config:
        address = checked_url(url)
        kept = {at: token for at, token in self.tokens.items() if at != address}
        return replace(self, platform=None if self.platform == address else self.platform, tokens=kept)


def find_address(url: str | None = None) -> str | None:
    """The platform to speak to, if anything names one."""
    found = url or os.environ.get("SAIBOT_PLATFORM") or Config.read().platform
    return checked_url(found) if found else None


def connect(url: str | None = None, token: str | None = None, *, typed: bool = True) -> Platform:
    """The platform that was named, or the default one, with the token that belongs to it.

    `typed`: the address was named by the user. One that a file names gets no token but its own from `saibot login`.
    """
    address = find_address(url)
    if address is None:
        raise InvalidInput(
            "no platform was named.", hint="Give --platform ADDRESS, set SAIBOT_PLATFORM, or `saibot login ADDRESS` once."
        )
    config = Config.read()
    given = os.environ.get("SAIBOT_TOKEN")
    if given and token is None:
        # It was given for one address: that of SAIBOT_PLATFORM, or the default one; else for what the user types beside it.
        home = os.environ.get("SAIBOT_PLATFORM") or config.platform
        token = given if (checked_url(home) == address if home else typed) else None
    return Platform(address, token or config.tokens.get(address))


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=True)  # what JSON escapes, TOML escapes alike
