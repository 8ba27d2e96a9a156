"""A Debian that has Python and nothing else: one line installs the wheel there, and `saibot demo` runs. `make test-install`.

    python -m tests.campaigns.fresh_debian --folder build/debian

makes it with mmdebstrap (as root), and prints what each extra takes: seconds and megabytes. There is no compiler in it, so
a package that has to be built fails. pip is configured there as it is here: by variables and mounts while it runs.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEBIAN = ("mmdebstrap", "--quiet", "--variant=minbase")
FURTHER = ("report", "sklearn", "fast", "polars", "postgres", "figures", "maps", "vocabularies", "site")
EXTRAS = ("", *FURTHER, "local", "provider", "platform", "demo")  # not `spark` and `gpu`: thousands of megabytes
COMPILERS = ("cc", "gcc", "g++", "clang", "make", "rustc", "cargo", "gfortran")
OF_UV = {  # what uv calls what pip is told
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_CERT": "SSL_CERT_FILE",
}
USER = "1000:1000"
AT = "/home/somebody"


def make(root: Path) -> float:
    """The Debian, and how many megabytes it has."""
    if not (root / "usr/bin/python3").exists():
        shutil.rmtree(root, ignore_errors=True)
        root.parent.mkdir(parents=True, exist_ok=True)
        wanted = [*DEBIAN, "--include=python3,python3-venv,ca-certificates"]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([*wanted, "bookworm", str(root)], check=True, **quiet)
    shutil.rmtree(root / AT[1:], ignore_errors=True)
    (root / AT[1:]).mkdir(parents=True)
    os.chown(root / AT[1:], *map(int, USER.split(":")))
    return megabytes(root)


def own_pip() -> tuple[dict[str, str], set[str]]:
    """How pip is configured here, as variables, and the files and folders on this machine that they name."""
    said = subprocess.run([sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True).stdout
    lines = re.findall(r"^(?:global|install|:env:)\.([\w-]+)='(.*)'$", said, flags=re.MULTILINE)
    variables = {f"PIP_{name.upper().replace('-', '_')}": value for name, value in lines}
    proxies = ("http_proxy", "https_proxy", "no_proxy")
    variables |= {name: value for name, value in os.environ.items() if name.lower() in proxies}
    variables |= {of_uv: variables[of_pip] for of_pip, of_uv in OF_UV.items() if of_pip in variables}
    words = {word.removeprefix("file://") for value in variables.values() for word in value.split()}
    named = [Path(word) for word in words if word.startswith("/") and Path(word).exists()]
    # A folder that is an index names files that lie beside it.
    places = {str(path.parent if path.is_dir() and path.parent != Path("/") else path) for path in named}
    return variables, places | {"/etc/resolv.conf", "/etc/hosts"}


def inside(root: Path, command: str, *, pip: bool = False, user: str = USER) -> tuple[str, float]:
    """What a command prints there, of an ordinary user unless said otherwise, and the seconds it takes."""
    variables, places = own_pip() if pip else ({}, set())
    mounts = ["mount -t proc proc {root}/proc", "mount --rbind /dev {root}/dev"]
    for place in sorted(places):
        target = f"{{root}}{place}"
        made = (
            f"mkdir -p {target}"
            if Path(place).is_dir()
            else f"mkdir -p $(dirname {target}); test -e {target} || touch {target}"
        )
        mounts.append(f"{made}; mount --bind {place} {target}")
    environment = {"PATH": "/usr/bin:/bin", "HOME": AT, "LANG": "C.UTF-8", "COLUMNS": "100"} | variables
    words = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), "sh", "-c", f"cd {AT} && {command}"]
    enter = f"chroot --userspec={user} {{root}} {shlex.join(words).replace('{', '{{').replace('}', '}}')}"
    script = "set -e\n" + "\n".join([*mounts, enter]).format(root=shlex.quote(str(root)))
    start = time.monotonic()
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script], capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{command}\n{done.stdout}\n{done.stderr}")
    return done.stdout, time.monotonic() - start


def megabytes(folder: Path) -> float:
    """What its files hold; not what a file system makes of it."""
    done = subprocess.run(["du", "-sxb", str(folder)], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[0]) / 1e6


def main() -> None:
    words = argparse.ArgumentParser(description="Install the wheel of dist in a Debian of its own, and run the demo.")
    words.add_argument("--folder", type=Path, default=ROOT / "build" / "debian")
    root = words.parse_args().folder.resolve()
    wheel = next((ROOT / "dist").glob("saibot-*.whl"), None)
    if wheel is None or shutil.which("mmdebstrap") is None or os.geteuid():
        sys.exit("This needs a wheel (make dist), mmdebstrap (apt-get install mmdebstrap) and root.")
    print(f"Debian bookworm with Python: {make(root):.0f} MB")
    found, _ = inside(root, f"command -v {' '.join(COMPILERS)} || true")
    assert not found, found
    shutil.copy(wheel, root / AT[1:])
    inside(root, f"python3 -m venv {AT}/env")
    empty = megabytes(root / AT[1:] / "env")  # pip itself
    light = 0.0
    for extra in EXTRAS:  # the last one stays, for the demo
        wanted = f"{AT}/{wheel.name}[{extra}]" if extra else f"{AT}/{wheel.name}"
        line = f"python3 -m venv {AT}/env && {AT}/env/bin/pip install --quiet '{wanted}'"
        _, seconds = inside(root, f"rm -rf {AT}/env && {line}", pip=True)
        said, help_seconds = inside(root, f"{AT}/env/bin/saibot --help")
        assert "demo" in said
        size = megabytes(root / AT[1:] / "env") - empty
        light = light or size
        added = f" | {size - light:.0f} MB more" if extra in FURTHER else ""
        print(f"| {extra or 'none'} | {seconds:.0f} s | {size:.0f} MB{added} | --help {help_seconds:.1f} s |", flush=True)
    told, seconds = inside(root, f"{AT}/env/bin/saibot demo")
    assert "report" in told, told
    print(f"saibot demo: {seconds:.0f} s\n{told[-600:]}")
    try_runners(root, wheel)


def try_runners(root: Path, wheel: Path) -> None:
    """uvx and pipx run and install the wheel, and what a hint of theirs says is a command that works."""
    got = f"python3 -m venv {AT}/tools && {AT}/tools/bin/pip install --quiet uv pipx >&2 && echo got || echo none"
    said, _ = inside(root, f"rm -rf {AT}/env {AT}/tools && {got}", pip=True)
    if said.split()[-1:] != ["got"]:
        print("uv and pipx are not to be had: not tried")
        return
    uvx, pipx, place = f"{AT}/tools/bin/uvx", f"{AT}/tools/bin/pipx", f"{AT}/{wheel.name}"
    light = f"{uvx} --find-links {AT} --from saibot saibot"
    for called, extra in (
        (light, ""),
        (f"{uvx} --from '{place}' saibot", ""),
        (f"{uvx} --find-links {AT} --from 'saibot[demo]' saibot", "demo"),
        (f"{pipx} run --spec '{place}[demo]' saibot", "demo"),
    ):
        said, seconds = inside(root, f"{called} {'demo' if extra else '--version'}", pip=True)
        assert ("next:" in said) if extra else said.startswith("saibot "), (called, said)
        print(f"{called}: {seconds:.0f} s", flush=True)
        for line in re.findall(r"^  (\S.*saibot) demo ", said, flags=re.MULTILINE):  # as it is told, as it stands
            inside(root, f"{line} --version", pip=True)
    hint, _ = inside(root, f"{light} privatize x.csv 2>&1 || true", pip=True)
    print(hint)
    said, seconds = inside(root, f"{pipx} install --quiet '{place}[local]' && {AT}/.local/bin/saibot --version", pip=True)
    print(f"pipx install: {seconds:.0f} s, {said.strip()}")


if __name__ == "__main__":
    main()
