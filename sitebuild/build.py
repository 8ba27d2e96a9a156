"""The site, built by MkDocs in its strict mode: a warning is an error."""

from __future__ import annotations

import logging
from pathlib import Path

from mkdocs.commands import build as mkdocs
from mkdocs.config import load_config

from saibot import __version__

CONFIGURATION = Path(__file__).parent / "mkdocs.yml"


def build(folder: Path, *, quick: bool = False) -> None:
    """Write the site into a folder; with `quick`, notebooks are shown without being run."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    config = load_config(
        str(CONFIGURATION), site_dir=str(folder), strict=True, extra={"quick": quick, "version": __version__}
    )
    mkdocs.build(config)
