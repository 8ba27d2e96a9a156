"""The command line: thin commands over the package. `main` is the entry point."""

from saibot.cli.app import main

__all__ = ["main"]
