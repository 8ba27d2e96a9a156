"""The sketch: its content, its file and the public key domains it speaks of."""

from saibot.domains.domain import OTHER, KeyDomain
from saibot.sketch.collecting import collect
from saibot.sketch.file import SUFFIX, read_header, read_sketch, write_sketch
from saibot.sketch.header import Feature, Header, Key, KeyPart
from saibot.sketch.listed import listed_domain
from saibot.sketch.sketch import LevelTable, Sketch

__all__ = [
    "OTHER",
    "SUFFIX",
    "Feature",
    "Header",
    "Key",
    "KeyDomain",
    "KeyPart",
    "LevelTable",
    "Sketch",
    "collect",
    "listed_domain",
    "read_header",
    "read_sketch",
    "write_sketch",
]
