"""result.json on disk: read back, and checked for what every use of it needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from saibot.errors import InvalidInput
from saibot.search.document import checked_document


def read_result(path: Path) -> dict[str, Any]:
    """The document of a result."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(f"there is no result {path}.", hint="`saibot search --out FILE` writes one.") from None
    except (json.JSONDecodeError, UnicodeDecodeError, OSError, RecursionError):
        raise InvalidInput(f"{path} is no result of a search, or it is damaged.") from None
    return checked_document(document, str(path))
