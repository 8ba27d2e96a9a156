"""Where this machine keeps its ledger and its own sketches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saibot.privacy.ledger import Ledger


def saibot_home() -> Path:
    """`$SAIBOT_HOME`, or the user's data folder: `saibot.client.config.data_folder`, without loading the client."""
    from platformdirs import user_data_path

    chosen = os.environ.get("SAIBOT_HOME")
    return Path(chosen) if chosen else user_data_path("saibot")


def open_ledger() -> Ledger:
    from saibot.privacy.ledger import Ledger

    return Ledger(saibot_home())
