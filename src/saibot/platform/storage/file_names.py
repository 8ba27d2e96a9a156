"""What files are called in the file store: by the digest of what they hold, so that the same thing has one file."""

from __future__ import annotations

from saibot.sketch import SUFFIX


def sketch_file_name(digest: str) -> str:
    return f"{digest[:2]}/{digest}{SUFFIX}"


def domain_file_name(digest: str) -> str:
    return f"domains/{digest}.arrow"
