"""`saibot report`: a saved result to look at; and `--report`, which searches write the same file with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli.augment import CorpusOption, FetchOption, KeyNames, PlatformOption, key_names, value_source
from saibot.cli.show import JsonOption, print_json, say
from saibot.report.terminal import show_result

if TYPE_CHECKING:
    from saibot.client import Augmented
    from saibot.wire import FitOnRows

ReportOption = Annotated[
    Path | None, typer.Option("--report", help="Write the result as one .html file that opens offline.")
]


def add_to(app: typer.Typer) -> None:
    app.command("report")(report)


def report(
    result: Annotated[Path, typer.Argument(help="What `saibot search --out` wrote.")],
    table: Annotated[
        Path | None,
        typer.Option(help="Rows with the target: shows actual against predicted, and what is left unexplained by key."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="What the columns would be worth had their providers spent this.", min=0.0)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write it: .html, which opens offline; .png, .svg or .pdf; .csv for spreadsheets.")
    ] = None,
    shown: Annotated[int, typer.Option(help="Ranked candidates to show.", min=1)] = 10,
    key: KeyNames = None,
    corpus: CorpusOption = None,
    platform: PlatformOption = None,
    fetch: FetchOption = False,
    json: JsonOption = False,
) -> None:
    """Show RESULT again, or write it as a report, a picture or a table. Needs neither corpus nor platform.

    With --table the model predicts these rows, here: nothing of them is sent, and nothing but a report that you ask for with
    --out holds any of them. Values that were chosen come from where `saibot augment` has them.
    """
    from saibot.client import Augmented
    from saibot.report.explore_terminal import show_explored
    from saibot.report.exploring import explore_view
    from saibot.report.result import view_result

    found = Augmented.load(result)
    _check_budget(found, epsilon)
    fit = None
    if table is not None:
        if found.columns:
            found = Augmented(found.result, value_source(found, corpus, platform, fetch=fetch))
        fit = found.explore(table, columns=key_names(key)).fit
    if out is not None:
        _write(found, fit, epsilon, out)
    if json:
        print_json(found.result.to_json() if fit is None else {"result": found.result.to_json(), "fit": fit.to_json()})
    elif out is not None:
        say(f"wrote {out}")
    else:
        show_result(found.result, sketches=None, shown=shown)
        say("")
        show_explored(explore_view(view_result(found.result), fit, epsilon=epsilon))


def _check_budget(found: Augmented, epsilon: float | None) -> None:
    from saibot.errors import InvalidInput

    asked = found.result.what_if
    if epsilon is None:
        return
    if asked is None:
        raise InvalidInput(
            "this result says nothing of other budgets: nothing was joined, or an earlier version made it.",
            hint="Search again.",
        )
    if not asked.epsilons[0] <= epsilon <= asked.epsilons[-1]:
        raise InvalidInput(f"--epsilon lies between {asked.epsilons[0]:g} and {asked.epsilons[-1]:g} here, not {epsilon:g}.")


def check_outputs(*, report: Path | None = None, picture: Path | None = None) -> None:
    """Refuse what cannot be written before anything takes time."""
    if report is not None:
        from saibot.report.html import check_can_write

        check_can_write(report)
    if picture is not None:
        from saibot.report.picture import check_can_save

        check_can_save(picture)


def _write(found: Augmented, fit: FitOnRows | None, epsilon: float | None, out: Path) -> None:
    from saibot.report import picture
    from saibot.report.result import result_csv, view_result
    from saibot.safe_file import write_safely

    if out.suffix.lower() == ".csv":
        write_safely(out, result_csv(view_result(found.result)).encode("utf-8-sig"))
    elif out.suffix.lower() in picture.SUFFIXES:
        found.plot(out)
    else:
        from saibot.report.html import write_report

        write_report(found.result, out, fit, epsilon=epsilon)
