"""`saibot federate`: a model trained together by those who agree, round by round, on the join that a search chose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saibot.cli import options
from saibot.cli.augment import value_source
from saibot.cli.connection import open_connection
from saibot.cli.home import open_ledger
from saibot.cli.show import JsonOption, print_json, say
from saibot.report.format import number, plural
from saibot.report.terminal import print_table

if TYPE_CHECKING:
    from saibot.client import Augmented
    from saibot.federated import ModelState, TrainingPlan
    from saibot.wire import Shape

app = typer.Typer(no_args_is_help=True)
PlanArgument = Annotated[Path, typer.Argument(help="The training plan that `federate prepare` wrote.")]
StateArgument = Annotated[Path, typer.Argument(help="The weights of the model: of the start, or after the last round.")]


def add_to(root: typer.Typer) -> None:
    root.add_typer(app, name="federate", help="Train a model together with providers who agree, in private rounds.")


@app.command("prepare")
def prepare(
    result: Annotated[Path, typer.Argument(help="result.json of a search: the join to train on.")],
    card: Annotated[
        list[Path],
        typer.Option(help="Card of everyone who trains, repeatable. The first one's bounds and levels hold for all."),
    ],
    out: Annotated[Path, typer.Option(help="Where to write the plan; the first weights go beside it.")],
    corpus: Annotated[Path | None, typer.Option(help="The corpus that was searched, if it was a folder.")] = None,
    platform: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Where to fetch the values. Default: the platform searched.")
    ] = None,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="After a search at home: fetch what is missing, which tells what was chosen.")
    ] = False,
    epsilon: options.Epsilon = "1",
    delta: options.Delta = "1e-6",
    hidden: Annotated[int, typer.Option(help="Hidden units of the model; 0 for a linear one.", min=0, max=64)] = 0,
    rounds: Annotated[
        int | None, typer.Option(help="Default: 1 for least squares, 4 with hidden units, 6 for yes or no.", min=1)
    ] = None,
    family: Annotated[str, typer.Option(help="gaussian, or binomial for a target with one level.")] = "gaussian",
    clip: Annotated[
        float | None, typer.Option(help="Length that a row's derivatives are clipped to.", min=1e-3, max=1e6)
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Everybody may see the chosen values: needed where no platform can say so.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Write the terms of a training: columns, bounds, joined values, rounds, clipping, budget, who trains. Reads no rows.

    The budget is what every trainer pays for all rounds together. All of the plan is public: it holds what cards and
    published sketches say, and the names of the columns that your search chose.
    """
    from saibot.client import Augmented
    from saibot.client.federating import training_plan
    from saibot.federated import first_state
    from saibot.privatize import Card

    found = Augmented.load(result)
    if found.columns:
        if not yes:
            _check_public(found, corpus, platform)
        found = Augmented(found.result, value_source(found, corpus, platform, fetch=fetch))
    cards = [Card.read(path) for path in card]
    budget = options.budget(epsilon, delta)
    plan = training_plan(found, cards, budget, hidden=hidden, rounds=rounds, family=family, clip=clip)  # type: ignore[arg-type]
    state = first_state(plan)
    beside = out.with_name(f"{out.stem}-state-0.json")
    _write(out, plan)
    _write(beside, state)
    if json:
        print_json({"plan": str(out), "state": str(beside)} | _told(plan))
        return
    say(f"wrote {out} and {beside}.", "")
    _show(plan, state)


@app.command("round")
def train(
    plan: PlanArgument,
    state: StateArgument,
    table: Annotated[Path, typer.Argument(help="Your table: CSV, Parquet or Arrow.")],
    card: Annotated[Path, typer.Option(help="Its card (TOML), by which your ledger knows it.")],
    out: Annotated[Path, typer.Option(help="Where to write your contribution to the round.")],
    epsilon: Annotated[
        str | None, typer.Option(help="The most that all rounds may cost you. Said once, at your first round of a plan.")
    ] = None,
    delta: Annotated[str, typer.Option(help="The same for delta.")] = "0",
    accept: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Instead of --epsilon: the plan that you agree to.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Contribute to the round after STATE from your own rows, charging your ledger first. The rows stay here.

    At your first round of a plan say what you agree to, with --epsilon and --delta or --accept: others wrote its price. A
    round is answered once: asked again for the same weights, you hand out the same contribution at no further cost. It is
    charged before your rows are read, and whatever is wrong with them does not bring that back.
    """
    from saibot.privatize import Card
    from saibot.privatize.training_round import train_round

    terms, weights = _read(plan, state)
    agreed = accept if accept is not None else options.budget(epsilon, delta) if epsilon is not None else None
    tell = lambda sentence: say(f"note: {sentence}", err=True)  # noqa: E731
    given = train_round(table, Card.read(card), terms, weights, open_ledger(), agreed=agreed, tell=tell)
    _write(out, given)
    if json:
        print_json({"contribution": str(out), "round": given.round, "dataset": given.dataset, "noise": given.noise})
        return
    say(f"wrote {out}: round {given.round} of {terms.rounds}, charged to {given.dataset}. Noise is in it already.")


@app.command("step")
def step(
    plan: PlanArgument,
    state: StateArgument,
    contribution: Annotated[list[Path], typer.Argument(help="The contributions to the round after STATE.")],
    out: Annotated[Path, typer.Option(help="Where to write the next weights.")],
    json: JsonOption = False,
) -> None:
    """Add up the contributions to a round and write the next weights. Anybody may do it: nothing here is secret."""
    from saibot.federated import Contribution, next_state
    from saibot.federated.training_plan import read_document

    terms, weights = _read(plan, state)
    given = [read_document(Contribution, path, "contribution") for path in contribution]
    after = next_state(terms, weights, given)
    _write(out, after)
    if json:
        print_json({"state": str(out), "round": after.round, "error": after.error, "trained": list(after.trained)})
        return
    say(f"wrote {out}: {_progress(terms, after)}")


@app.command("show")
def show(
    plan: PlanArgument,
    state: Annotated[Path | None, typer.Argument(help="Weights of the plan, to see how far it is.")] = None,
    json: JsonOption = False,
) -> None:
    """Show a plan: what would be trained, who pays how much for a round, and how far it is. Reads no rows."""
    from saibot.federated import TrainingPlan
    from saibot.federated.training_plan import read_document

    terms = read_document(TrainingPlan, plan, "training plan")
    weights = _read(plan, state)[1] if state is not None else None
    if json:
        print_json(_told(terms) | ({"round": weights.round, "error": weights.error} if weights else {}))
        return
    _show(terms, weights)


@app.command("predict")
def predict(
    plan: PlanArgument,
    state: StateArgument,
    table: Annotated[Path, typer.Argument(help="Rows with the plan's columns and keys.")],
    card: Annotated[Path, typer.Option(help="A card of the table: what it calls the plan's columns and keys.")],
    out: Annotated[Path, typer.Option(help="Where to write the rows with what is predicted: .csv, .parquet or .arrow.")],
    json: JsonOption = False,
) -> None:
    """Predict the target of your own rows with the trained model. Costs no budget and sends nothing."""
    from saibot.client.federating import TrainedModel
    from saibot.client.tables import column_names, write_augmented
    from saibot.privatize import Card

    terms, weights = _read(plan, state)
    model = TrainedModel(terms, weights, Card.read(card))
    name = f"predicted {terms.target.name}"
    write_augmented(table, {name: model.predict(table)}, out)
    there = terms.target.name in column_names(table)
    score = model.score(table) if there else None
    if json:
        print_json({"table": str(out), "column": name, "r2": score})
        return
    say(f"wrote {out} with the column {name!r}" + (f"; R² on these rows: {score:.3f}." if score is not None else "."))


def _check_public(found: Augmented, corpus: Path | None, platform: str | None) -> None:
    """Whether everybody may see the values that a plan would republish. The whole list is asked for: no choice shows."""
    from saibot.client.federating import not_public
    from saibot.errors import InvalidInput

    address = platform or found.result.platform
    if corpus is not None or address is None:
        names = ", ".join(dict.fromkeys(column.dataset for column in found.result.columns))
        raise InvalidInput(
            f"the plan would tell everyone who reads it the values of {names}, and a folder does not say who may see them.",
            hint="If their providers let everybody see them, say --yes.",
        )
    with open_connection(address, typed=platform is not None) as opened:
        hidden = not_public(found, opened.datasets())
    if hidden:
        raise InvalidInput(
            f"{', '.join(hidden)}: not shown to everybody on {address}, and a plan tells their values to whoever reads it.",
            hint="Search public datasets, or ask the providers; where they agree, say --yes.",
        )


def _read(plan: Path, state: Path) -> tuple[TrainingPlan, ModelState]:
    from saibot.federated import ModelState, TrainingPlan
    from saibot.federated.descent import check_state
    from saibot.federated.training_plan import read_document

    terms = read_document(TrainingPlan, plan, "training plan")
    weights = read_document(ModelState, state, "model state")
    check_state(terms, weights)
    return terms, weights


def _write(path: Path, document: Shape) -> None:
    import json as codec

    from saibot.safe_file import write_safely

    write_safely(path, codec.dumps(document.to_json()).encode(), public=True)


def _told(plan: TrainingPlan) -> dict[str, object]:
    trainers = []
    for one in plan.trainers:
        planned = plan.round_plan(one)
        events = [event.to_json() for event in planned.events]
        trainers.append({"dataset": one.dataset, "neighbours": str(one.neighbours), "mu": planned.mu, "events": events})
    return {
        "digest": plan.digest,
        "target": plan.target.name,
        "columns": [column.name for column in plan.columns],
        "joined": [column.name for column in plan.joined],
        "family": plan.family,
        "weights": plan.network.size,
        "rounds": plan.rounds,
        "clip": plan.clip,
        "budget": plan.budget.to_json(),
        "trainers": trainers,
    }


def _show(plan: TrainingPlan, state: ModelState | None) -> None:
    kind = "least squares" if plan.family == "gaussian" else "logistic regression"
    kind = f"{plural(plan.hidden, 'hidden unit')} beside {kind}" if plan.hidden else kind
    say(f"{plan.target.name}, by {kind}: {plural(plan.network.size, 'weight')}, {plural(plan.rounds, 'round')}")
    say(f"columns that everybody has: {', '.join(column.name for column in plan.columns) or 'none'}")
    say(f"joined by published values: {', '.join(column.name for column in plan.joined) or 'none'}")
    say(f"every trainer pays {plan.budget} for all rounds; a row is clipped to length {number(plan.clip)}")
    say(f"digest {plan.digest}", "")
    cells = []
    for one in plan.trainers:
        planned = plan.round_plan(one)
        price = f"μ={planned.mu:.3g}" if planned.mu is not None else f"ε={plan.budget.split(plan.rounds).epsilon:.3g}"
        cells.append([one.dataset, str(one.neighbours), price, number(plan.noise_of(one))])
    print_table("who trains", ["dataset", "neighbours", "a round costs", "noise of a sum"], cells, right=(2, 3))
    if state is not None:
        say(_progress(plan, state))


def _progress(plan: TrainingPlan, state: ModelState) -> str:
    if state.round == 0:
        return "no round has been trained yet."
    left = "done" if state.round >= plan.rounds else f"{plural(plan.rounds - state.round, 'round')} to go"
    before = f"; mean squared error before it: {number(state.error)} (scaled)" if state.error is not None else ""
    return f"round {state.round} of {plan.rounds}, with {', '.join(state.trained)}{before}; {left}."
