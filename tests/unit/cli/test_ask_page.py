"""`saibot ask-page` writes the page, the same bytes each time, and says how to recognise it."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

from typer.testing import CliRunner

from saibot.ask_page import ask_page
from saibot.cli.app import app


def test_the_page_is_written_with_its_hash(tmp_path: Path) -> None:
    out = tmp_path / "pages" / "ask.html"
    said = CliRunner().invoke(app, ["ask-page", "--out", str(out)])
    assert said.exit_code == 0 and out.read_text(encoding="utf-8") == ask_page()
    assert f"sha256 {sha256(out.read_bytes()).hexdigest()}" in said.stdout
    assert out.stat().st_mode & 0o044  # to be passed on
    document = json.loads(CliRunner().invoke(app, ["ask-page", "--out", str(out), "--json"]).stdout)
    assert document == {"file": str(out), "bytes": out.stat().st_size, "sha256": sha256(out.read_bytes()).hexdigest()}


def test_it_needs_no_extra(tmp_path: Path) -> None:
    """Who passes the page on may have the light client alone."""
    import subprocess
    import sys

    code = (
        "import sys; from saibot.cli.app import app; app(['ask-page', '--out', sys.argv[1]], standalone_mode=False); "
        "print(sorted({'scipy', 'pandas', 'duckdb', 'opendp', 'ibis', 'numpy', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.html")], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
