"""`python -m saibot`, the same as `saibot`."""

from saibot.cli import main

if __name__ == "__main__":
    main()
