"""Commands as a person types them: a process of its own, with a ledger below the folder it runs in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SAIBOT = [sys.executable, "-m", "saibot.cli"]


def run(*arguments: object, cwd: Path, home: str = "home") -> subprocess.CompletedProcess[str]:
    """`run("privatize", "t.csv", cwd=folder)`; `home` names the folder of whoever types it."""
    environment = os.environ | {"SAIBOT_HOME": str(cwd / home), "COLUMNS": "160"}
    command = [*SAIBOT, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)
