"""Who signed a sketch: Ed25519 over its digest, and so over all that the digest covers.

A signature says that whoever has a key vouched for exactly these statistics under exactly this header. It adds nothing that
was learned from rows: it is a function of the digest and of the key. The digest does not cover it, so signing a sketch does
not change its digest, and one sketch can be signed again with a new key.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from saibot.errors import InvalidInput, InvalidSketch
from saibot.sketch.header import Header, Signature

if TYPE_CHECKING:
    from saibot.sketch.sketch import Sketch

SCHEME = "ed25519"
# What is signed begins with what it is: a signature made for one purpose is none for another.
OF_SKETCH = b"saibot sketch signature 1\n"  # then the 32 bytes of the digest
OF_ACCOUNT = b"saibot account key 1\n"  # then the platform's challenge, a line end, and the account's name
OF_SUCCESSOR = b"saibot next key 1\n"  # then the 32 bytes of the old and of the new public key
_KEY = re.compile(r"[0-9a-f]{64}")
_VALUE = re.compile(r"[0-9a-f]{128}")


@dataclass(frozen=True)
class PublicKey:
    """A signer's key, as anybody may know it."""

    raw: bytes  # 32 bytes

    @classmethod
    def read(cls, text: str) -> PublicKey:
        """From 64 hexadecimal digits."""
        if not _KEY.fullmatch(text):
            raise InvalidInput("a public key is written as 64 hexadecimal digits.", hint="`saibot key show` prints yours.")
        return cls(bytes.fromhex(text))

    @property
    def text(self) -> str:
        return self.raw.hex()

    @property
    def fingerprint(self) -> str:
        """What people compare: half of the key's sha256, in four groups."""
        letters = hashlib.sha256(self.raw).hexdigest()[:32]
        return "-".join(letters[start : start + 8] for start in range(0, 32, 8))

    def verifies(self, signature: str, message: bytes) -> bool:
        """Whether the signature, 128 hexadecimal digits, is this key's, of this message."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        if not _VALUE.fullmatch(signature):
            return False
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(bytes.fromhex(signature), message)
        except (InvalidSignature, ValueError):  # the latter: no point of the curve
            return False
        return True


class SigningKey:
    """The secret half. It is never printed, and leaves the process as a PEM text for its owner's own file alone."""

    def __init__(self, key: Any) -> None:
        self._key = key

    @classmethod
    def new(cls) -> SigningKey:
        """From the operating system's randomness."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, pem: bytes) -> SigningKey:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            found = load_pem_private_key(pem, None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            found = None
        if not isinstance(found, Ed25519PrivateKey):
            raise InvalidInput("this is no signing key of saibot's.", hint="`saibot key show` says where yours is.")
        return cls(found)

    def pem(self) -> bytes:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return bytes(self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    @property
    def public(self) -> PublicKey:
        return PublicKey(self._key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> str:
        return bytes(self._key.sign(message)).hex()

    def __repr__(self) -> str:
        return f"SigningKey({self.public.fingerprint})"

    def __reduce__(self) -> Any:
        raise TypeError("a signing key is not copied into other processes")


def signed(sketch: Sketch, key: SigningKey) -> Sketch:
    """The same sketch with this key's signature, in the place of any other. Its digest stays what it is."""
    from dataclasses import replace

    if sketch.header.version == 1:
        raise InvalidInput("a sketch of format version 1 has no room for a signature.", hint="Publish it unsigned.")
    made = Signature(scheme=SCHEME, signer=key.public.text, value=key.sign(_message(sketch.digest)))
    return replace(sketch, header=sketch.header.model_copy(update={"signature": made}))


def signer_of(header: Header) -> PublicKey | None:
    """Who signed the sketch with this header; None where nobody did, or in a way that this version does not know.

    A signature that is not of this sketch is no way to say nothing: InvalidSketch.
    """
    found = header.signature
    if found is None or found.scheme != SCHEME:
        return None
    if header.digest is None or not _KEY.fullmatch(found.signer):
        raise InvalidSketch("the sketch's signature names no key.")
    key = PublicKey(bytes.fromhex(found.signer))
    if not key.verifies(found.value, _message(header.digest)):
        raise InvalidSketch(
            "the sketch's signature is not of this sketch: it was changed after it was signed, or signed by somebody else."
        )
    return key


def account_proof(challenge: str, account: str) -> bytes:
    """What a key signs to be bound to an account: the platform's own challenge, so that no proof serves twice."""
    return OF_ACCOUNT + challenge.encode() + b"\n" + account.encode()


def successor_proof(old: PublicKey, new: PublicKey) -> bytes:
    """What an old key signs to hand over to a new one. Anybody can check it later, without the platform's word."""
    return OF_SUCCESSOR + old.raw + new.raw


def _message(digest: str) -> bytes:
    return OF_SKETCH + bytes.fromhex(digest)
