"""Where this machine keeps its ledger and its own sketches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saibot.home import data_folder

if TYPE_CHECKING:
    from saibot.privacy.ledger import Ledger


def open_ledger() -> Ledger:
    from saibot.privacy.ledger import Ledger

    return Ledger(data_folder())
