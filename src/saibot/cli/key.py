"""`saibot key`: the key that this machine signs sketches with, and other people's keys that it has met."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saibot.cli.show import JsonOption, print_json, say
from saibot.report.terminal import print_table


def add_to(app: typer.Typer) -> None:
    keys = typer.Typer(help="The key that your sketches are signed with, and those of others.", no_args_is_help=True)
    keys.command("show")(show)
    keys.command("rotate")(rotate)
    keys.command("sign")(sign)
    keys.command("known")(known)
    keys.command("forget")(forget)
    app.add_typer(keys, name="key")


def show(json: JsonOption = False) -> None:
    """Show your key's fingerprint, for others to compare, and where the key is. Makes one where there is none."""
    from saibot.client import SigningKeys

    keys = SigningKeys()
    current, earlier = keys.current(), keys.read()[1:]
    if json:
        old = [key.public.fingerprint for key in earlier]
        print_json({
            "fingerprint": current.public.fingerprint,
            "key": current.public.text,
            "file": str(keys.path),
            "earlier": old,
        })  # fmt: skip
        return
    facts = [["fingerprint", current.public.fingerprint], ["public key", current.public.text], ["file", str(keys.path)]]
    facts += [["before", key.public.fingerprint] for key in earlier]
    print_table("your signing key", ["", ""], facts, whole=(1,))
    say("Keep the file as safe as a password, and a copy of it elsewhere: who has it can sign as you.")


def rotate(json: JsonOption = False) -> None:
    """Make a new key. Platforms hear of it at your next `saibot publish`: the old key agrees to it by its signature."""
    from saibot.client import SigningKeys

    keys = SigningKeys()
    before, after = keys.current().public.fingerprint, keys.rotate().public.fingerprint
    if json:
        print_json({"fingerprint": after, "instead_of": before, "file": str(keys.path)})
        return
    say(f"your key is {after} now, in the place of {before}; both are in {keys.path}")
    say("Publish once more at every platform that you use. If somebody else may have the old key, tell their admins.")


def sign(
    sketches: Annotated[list[Path], typer.Argument(help="Sketches (.saibot files), signed where they are.")],
    json: JsonOption = False,
) -> None:
    """Sign SKETCHES with your key, for a folder: `saibot publish` signs by itself. A signature says nothing about rows."""
    from saibot.client import SigningKeys
    from saibot.client.sketch_request import open_sketch
    from saibot.safe_file import write_safely
    from saibot.sketch import write_sketch

    keys = SigningKeys()
    made = [(path, keys.sign(open_sketch(path))) for path in sketches]  # all, before the first is written
    for path, sketch in made:
        write_safely(path, write_sketch(sketch))
    fingerprint = keys.current().public.fingerprint
    if json:
        print_json({"fingerprint": fingerprint, "signed": [str(path) for path, _ in made]})
        return
    for path, _ in made:
        say(f"signed {path} with the key {fingerprint}")


def known(json: JsonOption = False) -> None:
    """List the keys of others that this machine has met on platforms. Compare fingerprints by other means: by telephone."""
    from saibot.client import KnownSigners
    from saibot.sketch.signing import PublicKey

    found = [
        (platform, account, PublicKey.read(key).fingerprint)
        for platform, accounts in sorted(KnownSigners().read().items())
        for account, key in sorted(accounts.items())
    ]
    if json:
        print_json({"known": [{"platform": at, "account": who, "fingerprint": key} for at, who, key in found]})
        return
    print_table("keys that were met", ["platform", "account", "fingerprint"], [list(one) for one in found], whole=(2,))


def forget(
    account: Annotated[str, typer.Argument(help="The account whose key is another one now, and you have made sure of it.")],
    platform: Annotated[str | None, typer.Option(metavar="ADDRESS", help="At this platform. Default: at all.")] = None,
    json: JsonOption = False,
) -> None:
    """Forget an account's key: the next one that a platform shows is believed, as if for the first time."""
    from saibot.client import KnownSigners
    from saibot.client.transport import checked_url

    gone = KnownSigners().forget(account, None if platform is None else checked_url(platform))
    if json:
        print_json({"account": account, "forgotten": gone})
    else:
        say(f"forgot {gone} key{'' if gone == 1 else 's'} of {account}")
