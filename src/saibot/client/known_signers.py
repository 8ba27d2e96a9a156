"""Whose keys this machine has met, and where: a platform that shows another key for a provider than before is noticed.

The first key of an account is believed, as the platform tells it. A later one is believed if each key in between has agreed
to the next by its own signature, which needs nobody's word. Anything else is told, every time, until the user forgets the
old key.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from saibot.errors import InvalidInput
from saibot.home import data_folder
from saibot.safe_file import write_safely
from saibot.sketch.signing import PublicKey, successor_proof
from saibot.wire import ProviderStanding

FILE = "known-signers.json"


class KnownSigners:
    """`platform -> account -> public key`, in one file."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or data_folder() / FILE

    def read(self) -> dict[str, dict[str, str]]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            if not all(isinstance(key, str) for accounts in found.values() for key in accounts.values()):
                raise ValueError
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError):
            raise InvalidInput(
                f"the list of known keys {self.path} cannot be read.", hint="Correct it, or remove it."
            ) from None
        return {str(platform): dict(accounts) for platform, accounts in found.items()}

    def meet(self, platform: str, standings: Iterable[ProviderStanding]) -> list[str]:
        """Remember the keys of those who are new, and of those whose old key agreed; sentences about all others."""
        known = self.read()
        here, notes = dict(known.get(platform, {})), []
        for standing in standings:
            before = here.get(standing.name)
            if standing.key is not None and (before is None or follows(before, standing)):
                here[standing.name] = standing.key
            elif before is not None and before != standing.key:
                now = "no key at all" if standing.fingerprint is None else f"the key {standing.fingerprint}"
                had = f"{standing.name} had the key {PublicKey.read(before).fingerprint} before, and now has {now}"
                notes.append(f"{had}: ask them by other means, and then `saibot key forget {standing.name}`")
        if here != known.get(platform, {}):
            write_safely(self.path, json.dumps(known | {platform: here}, indent=1, sort_keys=True).encode())
        return notes

    def forget(self, account: str, platform: str | None = None) -> int:
        """Meet an account as if for the first time; how many keys were forgotten."""
        known = self.read()
        gone = [place for place, accounts in known.items() if account in accounts and platform in (None, place)]
        left: Mapping[str, dict[str, str]] = {
            place: {name: key for name, key in accounts.items() if place not in gone or name != account}
            for place, accounts in known.items()
        }
        if gone:
            write_safely(self.path, json.dumps(left, indent=1, sort_keys=True).encode())
        return len(gone)

    def name_of(self, fingerprint: str) -> str | None:
        """By whose name, and where, a key was met."""
        for platform, accounts in sorted(self.read().items()):
            for account, key in sorted(accounts.items()):
                if PublicKey.read(key).fingerprint == fingerprint:
                    return f"{account} at {platform}"
        return None


def follows(before: str, standing: ProviderStanding) -> bool:
    """Whether the key in use is the one that was known, or comes after it by the agreement of each key in between."""
    earlier, key = {one.key: one for one in standing.earlier_keys}, before
    for _ in range(len(earlier) + 1):
        if key == standing.key:
            return True
        link = earlier.get(key)
        if link is None or link.proof is None or link.next is None:
            return False
        if not PublicKey.read(key).verifies(link.proof, successor_proof(PublicKey.read(key), PublicKey.read(link.next))):
            return False
        key = link.next
    return False
