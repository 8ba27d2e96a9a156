"""The sketch: its content, its file and the public key domains it speaks of."""

from saibot.domains.domain import OTHER, KeyDomain
from saibot.sketch.at_level import at_level
from saibot.sketch.collecting import collect
from saibot.sketch.file import SUFFIX, read_header, read_part, read_sketch, write_sketch
from saibot.sketch.header import Feature, Header, Key, KeyPart
from saibot.sketch.listed import listed_domain
from saibot.sketch.payload import payload_of
from saibot.sketch.plausibility import Implausible, implausible
from saibot.sketch.signing import PublicKey, SigningKey, signed, signer_of
from saibot.sketch.sketch import LevelTable, Sketch

__all__ = [
    "OTHER",
    "SUFFIX",
    "Feature",
    "Header",
    "Implausible",
    "Key",
    "KeyDomain",
    "KeyPart",
    "LevelTable",
    "PublicKey",
    "SigningKey",
    "Sketch",
    "at_level",
    "collect",
    "implausible",
    "listed_domain",
    "payload_of",
    "read_header",
    "read_part",
    "read_sketch",
    "signed",
    "signer_of",
    "write_sketch",
]
