"""Files that are written all at once."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_safely(path: Path, content: bytes) -> None:
    """All of it or nothing, also through a power cut; readable by its owner only, from the first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")  # with mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
