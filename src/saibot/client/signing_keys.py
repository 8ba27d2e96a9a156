"""This machine's keys that sketches are signed with, in one file that only its owner may read.

The file lies beside the ledger and holds the key in use first, then those whose place it took: platforms that know an old
one are shown its agreement to the new one. Whoever has the file can sign as its owner; who loses it asks the platform's
admin.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from saibot.client.answers import read_answer
from saibot.client.errors import NotFound
from saibot.errors import InvalidInput
from saibot.home import data_folder
from saibot.safe_file import create_safely, write_safely
from saibot.sketch.signing import SigningKey, account_proof, signed, signer_of, successor_proof
from saibot.wire import AccountKey, KeyChallenge, NewKey

if TYPE_CHECKING:
    from saibot.client.platform import Platform
    from saibot.sketch import Sketch

FILE = "signing-keys.pem"
_BLOCK = re.compile(rb"-----BEGIN PRIVATE KEY-----.*?-----END PRIVATE KEY-----\n?", re.DOTALL)


class SigningKeys:
    """`SigningKeys().sign(sketch)`. The first key is made when it is first needed."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or data_folder() / FILE

    def read(self) -> tuple[SigningKey, ...]:
        """The key in use, then earlier ones; none where there is no file."""
        try:
            mode, content = self.path.stat().st_mode, self.path.read_bytes()
        except FileNotFoundError:
            return ()
        except OSError:
            raise InvalidInput(f"the signing keys {self.path} cannot be read.") from None
        if stat.S_IMODE(mode) & 0o077:
            raise InvalidInput(
                f"others may read your signing keys {self.path}.",
                hint=f"`chmod 600 {self.path}`; if somebody may have read them, `saibot key rotate` makes a new one.",
            )
        return tuple(SigningKey.read(block) for block in _BLOCK.findall(content))

    def current(self) -> SigningKey:
        """The key in use, made now if there is none."""
        found = self.read()
        if not found:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            create_safely(self.path, SigningKey.new().pem(), public=False)  # who is faster makes it for both
            found = self.read()
        return found[0]

    def rotate(self) -> SigningKey:
        """A new key in the place of the one in use, which is kept to agree to it where platforms know it."""
        new = SigningKey.new()
        write_safely(self.path, b"".join(key.pem() for key in (new, *self.read())))
        return new

    def sign(self, sketch: Sketch) -> Sketch:
        """The sketch with this machine's signature. One that somebody else has signed is theirs, and refused."""
        by = signer_of(sketch.header)
        if by is not None and by not in {key.public for key in self.read()}:
            raise InvalidInput(
                f"{sketch.header.dataset.name} is signed by somebody else, with the key {by.fingerprint}.",
                hint="Publish what you made yourself; or, where the key is yours, with the file of keys that has it: "
                f"{self.path}.",
            )
        return signed(sketch, self.current())


def bind_key(platform: Platform, keys: SigningKeys) -> AccountKey | None:
    """Make this machine's key the account's on a platform, at first use, or after a rotation; None of old platforms."""
    try:
        known = read_answer(AccountKey, platform.wire.json("GET", "/v1/me/key"))
    except NotFound:
        return None
    current = keys.current()
    if known.key == current.public.text:
        return known
    old = next((key for key in keys.read() if key.public.text == known.key), None)
    if known.key is not None and old is None:
        raise InvalidInput(
            f"{known.account} signs at {platform.url} with the key {known.fingerprint}, which is not on this machine.",
            hint=f"Publish from the machine that has it, or copy its {FILE} here. Where it is lost, the platform's admin "
            "takes it back: `saibot providers take-key NAME`.",
        )
    asked = read_answer(KeyChallenge, platform.wire.json("POST", "/v1/me/key/challenge"))
    by_old = None if old is None else old.sign(successor_proof(old.public, current.public))
    proof = current.sign(account_proof(asked.challenge, asked.account))
    new = NewKey(key=current.public.text, proof=proof, by_old_key=by_old)
    return read_answer(AccountKey, platform.wire.json("PUT", "/v1/me/key", json=new.to_json()))
