"""What `deploy/` says about the wheel, the image and the unit holds: pins, hashes, privileges, and what is inside."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from email.message import Message
from functools import cache
from importlib.metadata import distribution, requires
from pathlib import Path
from types import ModuleType
from zipfile import ZipFile

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import saibot

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNIT = (DEPLOY / "saibot.service").read_text(encoding="utf-8")
HASHES = (DEPLOY / "hashes.txt").read_text(encoding="utf-8")
PINS = dict(re.findall(r"^(\S+)==(\S+)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE))


@cache
def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DEPLOY / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ------------------------------------------------------------------------------------------------ the wheel


def test_the_metadata_is_what_a_registry_shows() -> None:
    facts = distribution("saibot").metadata
    assert facts["Version"] == saibot.__version__ and facts["License-Expression"] == "Apache-2.0"
    text = facts.get_payload() if isinstance(facts, Message) else facts["Description"]
    assert str(text).lstrip().startswith("# Saibot")
    assert not script("check_wheel")._of_the_metadata(text, {name: facts[name] for name in facts})


def test_man_page_and_unit_are_installed_with_the_package() -> None:
    for name, source in (
        ("man/man1/saibot.1", ROOT / "docs" / "reference" / "saibot.1"),
        ("saibot/saibot.service", DEPLOY / "saibot.service"),
    ):
        assert (Path(sys.prefix) / "share" / name).is_file(), "run `make setup` again"
        assert source.is_file()


def made(folder: Path, **changed: str | None) -> Path:
    """A wheel as it should be, but for what is changed; None leaves a file out."""
    root = "saibot-0.1.0"
    files = {name: "" for name in script("check_wheel")._of_the_package()}
    files |= {f"{root}.dist-info/{name}": "" for name in script("check_wheel").ABOUT}
    files |= {f"{root}.data/data/{name}": "" for name in script("check_wheel").BESIDE}
    facts = {"Name": "saibot", "Version": saibot.__version__, "License-Expression": "Apache-2.0"}
    facts |= {"Description-Content-Type": "text/markdown", "Requires-Python": ">=3.11"}
    files[f"{root}.dist-info/METADATA"] = "".join(f"{name}: {value}\n" for name, value in facts.items()) + "\n# Saibot\n"
    path = folder / f"{root}-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        for name, text in (files | changed).items():
            if text is not None:
                archive.writestr(name, text)
    return path


def test_a_wheel_with_strayed_or_missing_files_is_found_out(tmp_path: Path) -> None:
    check = script("check_wheel").problems
    assert check(made(tmp_path)) == []
    assert check(made(tmp_path, **{"tests/test_x.py": ""})) == ["tests/test_x.py does not belong in it"]
    assert check(made(tmp_path, **{"saibot/py.typed": None})) == ["saibot/py.typed is missing"]
    guide = script("check_wheel").GUIDE
    assert check(made(tmp_path, **{guide: None})) == [f"{guide} is missing"]
    assert check(made(tmp_path, **{guide: "x" * 5_000_000})) == ["its guide is 5,000,000 bytes large"]
    assert check(made(tmp_path, **{"saibot/py.typed": "x" * 3_000_000}))[0].startswith("it is 3,000,")
    metadata = "Name: saibot\nVersion: 9\n\nsee [the docs](docs/reference/commands.md)\n"
    said = " ".join(check(made(tmp_path, **{"saibot-0.1.0.dist-info/METADATA": metadata})))
    assert "Version is '9'" in said and "](docs/reference/commands.md)" in said and "License-Expression" in said


# ------------------------------------------------------------------------------------------------ the image


def hashed() -> dict[str, str]:
    return {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)==(\S+) \\$", HASHES, flags=re.MULTILINE)
    }


def test_the_hashes_are_of_the_pinned_versions_and_name_no_place() -> None:
    pins = {canonicalize_name(name): version for name, version in PINS.items()}
    assert hashed() and all(pins[name] == version for name, version in hashed().items()), "run `make hashes`"
    lines = [line for line in HASHES.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==\S+ \\|    --hash=sha256:[0-9a-f]{64}(?: \\)?", line) for line in lines)
    assert "://" not in HASHES


def test_the_hashes_cover_all_that_a_platform_needs() -> None:
    extras = script("hashes").EXTRAS.split(",")
    there, left, done = hashed(), [("saibot", frozenset(extras))], set()
    while left:
        name, wanted = left.pop()
        if (name, wanted) in done:
            continue
        done.add((name, wanted))
        for line in requires(name) or ():
            one = Requirement(line)
            if any(one.marker is None or one.marker.evaluate({"extra": extra}) for extra in (*wanted, "")):
                found = canonicalize_name(one.name)
                assert found == "saibot" or found in there, f"{found}: run `make hashes`"
                left.append((found, frozenset(one.extras)))
    assert set(script("hashes").ALONE) <= set(there)
    assert not {"opendp", "duckdb", "pandas", "ibis-framework"} & set(there), "a platform sees no rows"


def test_the_image_runs_as_nobody_and_says_how_it_is() -> None:
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    assert re.search(r"^FROM scratch", text, flags=re.MULTILINE)
    last = text.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001:10001$", last, flags=re.MULTILINE) and "HEALTHCHECK" in last
    assert "--require-hashes" in text and "--no-index" in text


def test_the_compose_file_gives_a_server_as_little_as_it_needs() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    for name in ("saibot", "second"):
        one = services[name]
        assert one["read_only"] and one["cap_drop"] == ["ALL"] and "no-new-privileges:true" in one["security_opt"]
        assert "/readyz" in " ".join(one["healthcheck"]["test"])
        assert all(port.startswith("127.0.0.1:") for port in one["ports"])
    assert services["bucket"]["entrypoint"][:2] == ["python3", "-c"]
    compile(services["bucket"]["entrypoint"][2], "bucket", "exec")


# ------------------------------------------------------------------------------------------------ the unit and the list


def test_the_unit_gives_little_away() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    words = ["systemd-analyze", "security", "--offline=true", "--threshold=30", "--no-pager", str(DEPLOY / "saibot.service")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    if "unrecognized option" in done.stderr or "Failed to" in done.stderr:
        pytest.skip("this systemd-analyze judges no files")
    assert done.returncode == 0, done.stdout[-300:]


def test_the_unit_leaves_what_the_platform_writes_and_asks_for() -> None:
    lines = dict(line.split("=", 1) for line in UNIT.splitlines() if re.match(r"\w+=", line))
    assert lines["StateDirectory"] == lines["CacheDirectory"] == "saibot"
    assert lines["Environment"] == "SAIBOT_DATA=/var/lib/saibot NUMBA_CACHE_DIR=/var/cache/saibot"
    calls = re.findall(r"^SystemCallFilter=(.*)$", UNIT, flags=re.MULTILINE)
    after = {call for line in calls[calls.index("~@privileged @resources") + 1 :] for call in line.split()}
    assert {"setrlimit", "prlimit64", "setpriority"} <= after  # of saibot.platform.jobs.worker
    # Of saibot.platform.jobs.file_rules. In Debian 12 no group has them: without this line workers see everybody's files.
    assert {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"} <= after
    assert "AF_UNIX" in lines["RestrictAddressFamilies"] and "MemoryDenyWriteExecute" not in lines


def test_the_list_of_what_is_inside_is_complete_and_without_the_tools() -> None:
    found = script("sbom").document()
    names = {one["name"] for one in found["components"]}
    for line in requires("saibot") or ():
        one = Requirement(line)
        if one.marker is None or one.marker.evaluate({"extra": "demo"}) or one.marker.evaluate({"extra": "postgres"}):
            assert canonicalize_name(one.name) in names | {"saibot"}
    assert "pydantic-core" in names and not names & {"pytest", "ruff", "mypy", "hypothesis"}
    refs = [found["metadata"]["component"]["bom-ref"], *(one["bom-ref"] for one in found["components"])]
    assert len(refs) == len(set(refs)) and all(one["licenses"] for one in found["components"])
    edges = {one["ref"]: one["dependsOn"] for one in found["dependencies"]}
    assert set(edges) == set(refs) and set().union(*edges.values()) <= set(refs)
    assert json.dumps(found) == json.dumps(script("sbom").document())


def test_the_list_of_an_image_has_its_debian_packages(tmp_path: Path) -> None:
    for place, text in {
        "etc/os-release": 'VERSION_ID="12"\n',
        "var/lib/dpkg/status": "Package: tar\nStatus: install ok installed\nVersion: 1.34+dfsg\nArchitecture: amd64\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\nArchitecture: all\n",
        "usr/share/doc/tar/copyright": "Format: x\n\nLicense: GPL-3\n",
    }.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    [one] = script("sbom").of_debian(tmp_path)
    assert one["purl"] == "pkg:deb/debian/tar@1.34%2Bdfsg?arch=amd64&distro=debian-12"
    assert one["licenses"] == [{"license": {"name": "GPL-3"}}]
