"""Where this machine keeps its ledger, its own sketches and the key domains that were imported."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path:
    """`$SAIBOT_HOME`, or the user's data folder."""
    from platformdirs import user_data_path

    chosen = os.environ.get("SAIBOT_HOME")
    return Path(chosen) if chosen else user_data_path("saibot")
