"""The only code that sees raw rows: read, prepare, aggregate, release. What leaves it is a sketch."""

from saibot.privatize.card import Card
from saibot.privatize.checking import prepare
from saibot.privatize.drafting import make_card
from saibot.privatize.local_model import contribute
from saibot.privatize.looking import RowsLook, look_at
from saibot.privatize.privatize import Released, privatize
from saibot.privatize.rehearsal import DryRun, dry_run
from saibot.privatize.release_request import Prepared, ReleaseRequest

__all__ = [
    "Card",
    "DryRun",
    "Prepared",
    "ReleaseRequest",
    "Released",
    "RowsLook",
    "contribute",
    "dry_run",
    "look_at",
    "make_card",
    "prepare",
    "privatize",
]
