"""`saibot ask-page`: the page that makes a private request in a browser, for somebody who has nothing installed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saibot.cli.show import JsonOption, print_json, say


def add_to(app: typer.Typer) -> None:
    app.command("ask-page")(write_page)


def write_page(
    out: Annotated[Path, typer.Option(help="Where to write it.", metavar="FILE")] = Path("saibot-ask.html"),
    json: JsonOption = False,
) -> None:
    """Write one HTML file that makes the sketches of a private request in a browser, for people who have nothing installed.

    It is opened from disk and connects to nothing: it reads a CSV file, draws the noise, keeps its ledger in a file, and
    saves .saibot files for a platform's page Ask. No platform serves it: a script from a platform must not read rows.
    """
    from hashlib import sha256

    from saibot.ask_page import ask_page
    from saibot.safe_file import write_safely

    content = ask_page().encode()
    write_safely(out, content, public=True)
    digest = sha256(content).hexdigest()
    if json:
        print_json({"file": str(out), "bytes": len(content), "sha256": digest})
        return
    say(f"wrote {out} ({len(content):,} bytes)")
    say(f"sha256 {digest}")
    say("Give it to people by a way that they trust; they open it in a browser, from their own disk.")
    say("Every copy of this version has the same sha256, so whoever has the command can check one.")
