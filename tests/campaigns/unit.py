"""The systemd unit, under a systemd of its own: `make test-unit` (root, mmdebstrap, systemd-container).

    python -m tests.campaigns.unit --folder build/systemd

boots a Debian with systemd-nspawn that has the wheel of dist under /opt/saibot and the unit that it brings along,
unchanged. People publish and search on it, so that whatever the unit forbids and the platform needs would show; workers
have to say that they are confined there; then it is told to stop.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tests.campaigns.fresh_debian import DEBIAN, inside
from tests.campaigns.people import answers, use

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "http://127.0.0.1:8642"
HIGHEST = 3.0  # exposure, as systemd-analyze counts it
WAIT = 180
# What the unit lets through, systemd-nspawn would not: like the unit's groups, its own list is older than these calls.
RULES_OVER_FILES = "landlock_create_ruleset landlock_add_rule landlock_restrict_self"


def make(root: Path, wheel: Path) -> None:
    if not (root / "usr/lib/systemd/systemd").exists():
        shutil.rmtree(root, ignore_errors=True)
        root.parent.mkdir(parents=True, exist_ok=True)
        packages = "systemd,systemd-sysv,dbus,python3,python3-venv,ca-certificates"
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([*DEBIAN, f"--include={packages}", "bookworm", str(root)], check=True, **quiet)
    for place in ("opt/saibot", "var/lib/private/saibot", "var/cache/private/saibot"):
        shutil.rmtree(root / place, ignore_errors=True)
    (root / "home/somebody").mkdir(parents=True, exist_ok=True)
    shutil.copy(wheel, root / "home/somebody")
    wanted = f"/home/somebody/{wheel.name}[platform,fast,postgres]"
    # Folders that pip is told of may be mounted at /opt while it runs: the environment goes there afterwards.
    inside(root, f"python3 -m venv /srv/saibot && /srv/saibot/bin/pip install -q '{wanted}'", pip=True, user="0:0")
    names = "grep -lI /srv/saibot /opt/saibot/bin/* | xargs sed -i 's#/srv/saibot#/opt/saibot#'"
    inside(root, f"rm -rf /opt/saibot && mv /srv/saibot /opt/ && {names}", user="0:0")
    unit = root / "etc/systemd/system/saibot.service"
    shutil.copy(root / "opt/saibot/share/saibot/saibot.service", unit)
    wanted_by = unit.parent / "multi-user.target.wants" / unit.name
    wanted_by.parent.mkdir(exist_ok=True)
    wanted_by.unlink(missing_ok=True)
    wanted_by.symlink_to("/etc/systemd/system/saibot.service")
    (root / "etc/machine-id").write_text("")


def first_process(manager: int) -> int:
    """The systemd that nspawn has started."""
    found = Path(f"/proc/{manager}/task/{manager}/children").read_text().split()
    return int(found[0])


def main() -> None:
    words = argparse.ArgumentParser(description="Boot a Debian, and use a platform under the unit.")
    words.add_argument("--folder", type=Path, default=ROOT / "build" / "systemd")
    root = words.parse_args().folder.resolve()
    wheel = next((ROOT / "dist").glob("saibot-*.whl"), None)
    if wheel is None or shutil.which("systemd-nspawn") is None or shutil.which("mmdebstrap") is None or os.geteuid():
        sys.exit("This needs a wheel (make dist), root, and apt-get install mmdebstrap systemd-container.")
    if answers(ADDRESS):
        sys.exit(f"Something answers at {ADDRESS} already.")
    make(root, wheel)
    command = ["systemd-nspawn", "--directory", str(root), "--boot", "--register=no", "--keep-unit", "--console=pipe"]
    command.append(f"--system-call-filter={RULES_OVER_FILES}")
    booted = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + WAIT
        while not answers(ADDRESS):
            assert booted.poll() is None and time.monotonic() < end, "it does not come up"
            time.sleep(0.5)
        enter = ["nsenter", "--target", str(first_process(booted.pid)), "--all"]
        use(ADDRESS, (root / "var/lib/private/saibot/admin-token").read_text())
        lacking = httpx.get(f"{ADDRESS}/readyz").json()["not_confined"]
        assert lacking == [], f"workers are not confined as they should be: {lacking}"
        assert any((root / "var/cache/private/saibot").rglob("*.nbi")), "compiled sweeps are not kept"

        def ask(*words: str) -> str:
            return subprocess.run([*enter, *words], check=True, capture_output=True, text=True).stdout

        exposure = re.search(r"exposure level for saibot.service: ([\d.]+)", ask("systemd-analyze", "security", "saibot"))
        assert exposure is not None and float(exposure[1]) < HIGHEST, exposure
        ask("systemctl", "stop", "saibot")
        assert "Result=success" in ask("systemctl", "show", "saibot", "--property=Result")
        print(f"people published and searched under the unit, workers confined; exposure {exposure[1]}; it stopped well")
    finally:
        booted.send_signal(signal.SIGTERM)
        booted.wait(60)


if __name__ == "__main__":
    main()
