"""People who use a platform that somebody else runs: they publish and search by the example scripts, and read its pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from saibot.client import Platform

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PAGES = ("/", "/domains", "/sign-in", "/docs", "/v1/datasets", "/metrics")


def answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/readyz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def use(address: str, admin_token: str) -> None:
    """Fails where anything of it does."""
    assert httpx.get(f"{address}/healthz").status_code == 200
    admin = Platform(address, token=admin_token.strip())
    token = admin.create_token("people", ["provider", "requester"]).token
    with TemporaryDirectory() as folder:
        for script in ("hospital_publishes.py", "school_district_searches.py"):
            command = [sys.executable, str(EXAMPLES / script), "--platform", address, "--ledger", folder]
            environment = os.environ | {"SAIBOT_TOKEN": token, "SAIBOT_HOME": folder}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, done.stderr
    assert list(admin.datasets())
    with httpx.Client(base_url=address) as reader:
        for page in PAGES:
            answer = reader.get(page)
            assert answer.status_code == 200, (page, answer.status_code)
            for script in re.findall(r"(?:src|href)=\"(/static/[^\"]+)\"", answer.text):
                assert reader.get(script).status_code == 200, script
