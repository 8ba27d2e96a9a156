"""The sketch: its content, its file and the public key domains it speaks of."""

from saibot.sketch.collecting import collect
from saibot.sketch.domain import OTHER, KeyDomain
from saibot.sketch.file import SUFFIX, read_sketch, write_sketch
from saibot.sketch.header import Feature, Header, Key, KeyPart
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
    "read_sketch",
    "write_sketch",
]
