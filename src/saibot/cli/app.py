"""The `saibot` command: which commands there are, and how a failure is told.

Every command imports what it needs when it runs, so that `saibot --help` answers at once.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import Annotated, Any, NoReturn

import typer

from saibot import __version__
from saibot.cli import (
    ask_page,
    audit,
    augment,
    backup,
    bench,
    collect,
    compare,
    completion,
    contribute,
    datasets,
    demo,
    describe,
    discover,
    domains,
    enquiries,
    federate,
    grants,
    init,
    inspect,
    key,
    ledger,
    login,
    open_table,
    pack,
    plan,
    preview,
    privatize,
    providers,
    publish,
    report,
    reproduce,
    search,
    searches,
    serve,
    set_aside,
    split,
    synthesize,
    token,
    trail,
)
from saibot.cli.show import say
from saibot.errors import SaibotError
from saibot.extras import MissingExtra, missing_extra

app = typer.Typer(
    name="saibot",
    help="Differentially private data search: privatise a table once, publish the sketch, let anyone search it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
PANELS = {
    "Start here": (demo, completion),
    "Providers": (init, plan, preview, privatize, inspect, ledger, publish, describe, grants, key, collect),
    "Individuals": (contribute,),
    "Requesters": (
        *(split, ask_page, discover, search, searches, report),
        *(compare, augment, federate, synthesize, enquiries, pack),
    ),
    "Platforms": (serve, login, datasets, providers, domains, open_table, token, trail, backup, set_aside),
    "Checking us": (audit, bench, reproduce),
}
for panel, modules in PANELS.items():
    for module in modules:
        module.add_to(app)
    entries: list[Any] = [*app.registered_commands, *app.registered_groups]
    for entry in entries:
        if not isinstance(entry.rich_help_panel, str):
            entry.rich_help_panel = panel


def _version(wanted: bool) -> None:
    if wanted:
        say(f"saibot {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line: 0 done, 1 a failure told in one or two lines, 2 wrong usage, 130 stopped by ctrl-C."""
    signal.signal(signal.SIGINT, _stop)
    try:
        app()
    except Stopped:
        _stopped()
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception as problem:
        if _stopping.is_set():  # what is interrupted may say so in an error of its own: an engine, or half an import
            _stopped()
        known = missing_extra(problem) if isinstance(problem, ModuleNotFoundError) else problem
        if not isinstance(known, SaibotError):
            raise
        _fail(known)


class Stopped(BaseException):
    """Ctrl-C, under a name that the command-line library does not swallow on the way up."""


_stopping = threading.Event()


def _stop(number: int, frame: object) -> None:
    _stopping.set()
    raise Stopped


def _stopped() -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # whoever cannot wait for the end of this
    spent = "" if _asked_for() == "serve" else " What was charged before stays charged: `saibot ledger` shows it."
    say(f"stopped.{spent}", err=True)
    sys.exit(130)


def _asked_for() -> str:
    """The command that was typed."""
    return next((word for word in sys.argv[1:] if not word.startswith("-")), "")


def _fail(problem: SaibotError) -> NoReturn:
    if isinstance(problem, MissingExtra):
        problem = MissingExtra(problem.package, command=_asked_for())
    say(f"error: {problem.message}", err=True)
    if problem.hint:
        say(f"  hint: {problem.hint}", err=True)
    sys.exit(1)
