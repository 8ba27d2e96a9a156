"""Shells complete the commands, those of a group included."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("typed, offered", [("saibot pub", {"publish"}), ("saibot token ", {"create", "list", "revoke"})])
def test_a_shell_completes_commands(typed, offered):
    asked = {"_SAIBOT_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split(" ")) - 1)}
    program = "from saibot.cli import main; import sys; sys.argv = ['saibot']; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | asked, capture_output=True, text=True, timeout=60
    )
    assert set(done.stdout.split()) == offered, done.stderr
