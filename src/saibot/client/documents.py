"""What an answer in JSON may hold. It is counted before it is read: three letters, `{},`, become 72 bytes in memory.

So an answer has limits of bytes and of things. Most answers are of one thing or of a page; results have lists of keys.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from saibot.client.errors import PlatformUnreachable


@dataclass(frozen=True)
class Most:
    """The most that an answer may be: bytes, unpacked; objects and lists; entries of these."""

    bytes: int
    objects: int
    entries: int


DOCUMENT = Most(8 << 20, 100_000, 1_000_000)  # a dataset with 1,000 features has 1 MiB
PAGE = Most(16 << 20, 100_000, 1_000_000)  # of a list; 200 datasets with 50 features each have 12,000 objects
RESULT = Most(64 << 20, 500_000, 4_000_000)  # of a search, with the keys that it takes to use it
REFUSAL = Most(1 << 20, 10_000, 100_000)


def read_json(content: bytes, most: Most, *, whose: str) -> Any:
    """The document; raises ValueError or RecursionError where it is none."""
    objects, entries = content.count(b"{") + content.count(b"["), content.count(b",")
    if objects > most.objects or entries > most.entries:
        raise PlatformUnreachable(
            f"{whose} answers with more things than such an answer has.", hint="It may be no Saibot platform."
        )
    return json.loads(content)
