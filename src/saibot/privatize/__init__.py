"""The only code that sees raw rows: read, prepare, aggregate, release. What leaves it is a sketch."""

from saibot.privatize.card import Card
from saibot.privatize.privatize import Prepared, Released, ReleaseRequest, prepare, privatize

__all__ = ["Card", "Prepared", "ReleaseRequest", "Released", "prepare", "privatize"]
