"""result.json on disk: read back, and checked for what every use of it needs."""

from __future__ import annotations

import json
from pathlib import Path

from saibot.errors import InvalidInput
from saibot.wire import Result


def read_result(path: Path) -> Result:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(f"there is no result {path}.", hint="`saibot search --out FILE` writes one.") from None
    except (json.JSONDecodeError, UnicodeDecodeError, OSError, RecursionError):
        raise InvalidInput(f"{path} is no result of a search, or it is damaged.") from None
    return Result.read(document, str(path))
