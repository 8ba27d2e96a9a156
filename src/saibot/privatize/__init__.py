"""The only code that sees raw rows: read, prepare, aggregate, release. What leaves it is a sketch."""

from saibot.privatize.card import Card
from saibot.privatize.checking import prepare
from saibot.privatize.drafting import make_card
from saibot.privatize.local_model import contribute
from saibot.privatize.looking import RowsLook, look_at
from saibot.privatize.privatize import Released, privatize, privatize_by_keys
from saibot.privatize.rehearsal import DryRun, JointDryRun, dry_run, dry_run_by_keys
from saibot.privatize.release_request import Prepared, ReleaseRequest

__all__ = [
    "Card",
    "DryRun",
    "JointDryRun",
    "Prepared",
    "ReleaseRequest",
    "Released",
    "RowsLook",
    "contribute",
    "dry_run",
    "dry_run_by_keys",
    "look_at",
    "make_card",
    "prepare",
    "privatize",
    "privatize_by_keys",
]
