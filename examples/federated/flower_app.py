"""A training of `saibot federate`, moved between its parties by Flower: one ServerApp, one ClientApp.

Flower needs other versions of its libraries than Saibot, so it has an environment of its own and the two speak by files:
this module imports nothing of Saibot and calls its command. The server sends the weights as they stand in their file, each
client answers with its contribution to the round, and the server asks the command for the next weights. What a client sends
has its noise already, and its ledger was charged before.

    python flower_app.py FOLDER       runs all rounds in Flower's simulation, one node for each trainer

FOLDER holds plan.json, plan-state-0.json and trainers.json, a list of {"table", "card", "home", "accept"}: `home` is where
that trainer keeps its ledger and a log, `accept` is the digest of the plan that it agrees to pay for (`federate show` tells
it). SAIBOT_COMMAND is the command to call, `saibot` by default. In a real federation every client has a folder of its own
with one trainer in it, and Flower's SuperLink and SuperNodes take the place of the simulation.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

FOLDER = "SAIBOT_FEDERATION"
LONGEST = 300  # seconds to wait for all nodes, and for the answers of a round
NOTHING = "no contribution to this round"  # all that the server hears of a failure: why could tell of the rows
LOG = "federated.log"  # in the trainer's home: what went wrong there

client_app = ClientApp()
server_app = ServerApp()


def saibot(*arguments: str | Path, home: str | None = None) -> None:
    """Call the command. A trainer's, with its ledger in `home`, says what it has to say in a log there."""
    env = dict(os.environ) | ({"SAIBOT_HOME": home} if home else {})
    command = os.environ.get("SAIBOT_COMMAND", "saibot").split()
    done = subprocess.run([*command, "federate", *map(str, arguments)], env=env, capture_output=True, text=True)
    if home and done.stderr:
        with (Path(home) / LOG).open("a") as log:
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {done.stderr}")
    if done.returncode:
        raise RuntimeError("saibot failed" if home else done.stderr.strip() or "saibot failed")


def document(text: str) -> RecordDict:
    return RecordDict({"document": ConfigRecord({"text": text})})


def text_of(message: Message) -> str:
    return str(message.content["document"]["text"])


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """One round's contribution, computed where the rows are. Every failure looks alike to the server."""
    given = None
    with suppress(Exception):
        folder = Path(os.environ[FOLDER])
        trainer = json.loads((folder / "trainers.json").read_text())[int(context.node_config["partition-id"])]
        given = contribution(folder / "plan.json", text_of(message), trainer)
    if given is None:
        raise RuntimeError(NOTHING)
    return Message(document(given), reply_to=message)


def contribution(plan: Path, weights: str, trainer: dict[str, str]) -> str:
    """What the command answers to these weights."""
    with tempfile.TemporaryDirectory() as name:
        state, out = Path(name) / "state.json", Path(name) / "contribution.json"
        state.write_text(weights)
        Path(trainer["home"]).mkdir(parents=True, exist_ok=True, mode=0o700)
        agreed = ["--accept", trainer["accept"]]
        saibot(
            "round", plan, state, trainer["table"], "--card", trainer["card"], *agreed, "--out", out, home=trainer["home"]
        )
        return out.read_text()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """All rounds. The server sees noisy sums and weights, and nothing else."""
    folder = Path(os.environ[FOLDER])
    plan = json.loads((folder / "plan.json").read_text())
    nodes = all_nodes(grid, len(plan["trainers"]))
    for number in range(plan["rounds"]):
        before, after = (folder / f"plan-state-{number + more}.json" for more in (0, 1))
        sent = [Message(document(before.read_text()), dst_node_id=node, message_type="train") for node in nodes]
        answers = list(grid.send_and_receive(sent, timeout=LONGEST))
        failed = [answer.error.reason for answer in answers if answer.has_error()]
        if failed or len(answers) < len(nodes):
            raise RuntimeError(f"round {number + 1}: {len(answers)} of {len(nodes)} answered; {'; '.join(failed)}")
        files = []
        for place, answer in enumerate(answers):
            files.append(folder / f"contribution-{number + 1}-{place}.json")
            files[-1].write_text(text_of(answer))
        saibot("step", folder / "plan.json", before, *files, "--out", after)
        told = json.loads(after.read_text())
        print(
            f"round {number + 1}: {len(told['trained'])} trainers, mean squared error before it {told['error']:.4f}",
            flush=True,
        )


def all_nodes(grid: Grid, wanted: int) -> list[int]:
    """The nodes of all trainers, once they are there."""
    until = time.monotonic() + LONGEST
    while len(nodes := sorted(grid.get_node_ids())) < wanted:
        if time.monotonic() > until:
            raise RuntimeError(f"{len(nodes)} of {wanted} trainers came.")
        time.sleep(0.2)
    return nodes


if __name__ == "__main__":
    from flwr.simulation import run_simulation

    os.environ[FOLDER] = str(Path(sys.argv[1]).resolve())
    trainers = json.loads((Path(sys.argv[1]) / "trainers.json").read_text())
    one_core = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app, client_app, num_supernodes=len(trainers), backend_config=one_core)
    last = Path(sys.argv[1]) / f"plan-state-{json.loads((Path(sys.argv[1]) / 'plan.json').read_text())['rounds']}.json"
    sys.exit(0 if last.is_file() else "the training did not come to its end.")
