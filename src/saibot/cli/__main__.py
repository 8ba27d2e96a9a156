"""`python -m saibot.cli`, the same as `saibot`."""

from saibot.cli import main

main()
