"""An airline association runs a platform for its members, and can say who did what on it without seeing anybody's data.

python airline_runs_a_platform.py            publish, list, audit, stop
python airline_runs_a_platform.py --serve    the same, then keep it running with its web pages
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from saibot.client import NotAllowed, Platform, Provider, SigningKeys
from saibot.embedded import embedded
from saibot.platform import Settings
from saibot.privatize import Card

ROUTES = ["BOS-JFK", "BOS-LGA", "JFK-LAX", "JFK-SFO", "LGA-ORD", "ORD-SFO"]


def settings(folder: Path) -> Settings:
    """What the association allows its members. Every field can be given by the environment as well: SAIBOT_..."""
    return Settings(data=folder, datasets_per_provider=50, searches_per_requester=5, result_days=2, log_level="error")


def member_card(name: str) -> Card:
    return Card.parse({
        "dataset": {"name": f"{name}-delays", "individual": "one flight", "neighbours": "replace-one"},
        "budget": {"cap": {"epsilon": "1", "delta": "1e-6"}},
        "features": {"delay": {"bounds": [-30, 120], "unit": "minute"}},
        "keys": {"route": {"domain": {"values": ROUTES, "id": "member-routes"}}},
    })  # fmt: skip


def member_flights(seed: int, flights: int = 5_000) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"route": rng.choice(ROUTES, flights), "delay": rng.gamma(2, 12, flights) - 15})


def run(admin: Platform, folder: Path) -> None:
    for seed, member in enumerate(("northwind", "southwind")):
        keys = SigningKeys(folder / member / "signing-keys.pem")  # each has its own
        provider = Provider(admin.as_account(member, ["provider"]), folder / member, keys=keys)
        card = member_card(member)
        sketch = provider.privatize(member_flights(seed), card, epsilon="1", key="route")
        published = provider.publish(sketch, card=card, visibility="restricted")
        print(f"{member} published {published.name} as {published.id}")

    stranger = admin.with_token(None)
    print(f"without a token: {len(list(stranger.datasets()))} datasets; a member's analyst sees", end=" ")
    analyst = admin.as_account("analyst", ["requester"])
    print(len(list(analyst.datasets())))
    try:
        list(analyst.audit())
    except NotAllowed as refused:
        print(f"the trail is not for analysts: {refused.message}")

    guest = admin.create_token("guest", ["requester"], expires="2099-01-01")
    admin.revoke_token(guest.id)
    print("who did what, newest first:")
    for entry in admin.audit():
        print(f"  {entry['account']:<10} {entry['action']:<16} {entry['subject']}")


def main() -> None:
    parser = argparse.ArgumentParser(description="An association of airlines runs a platform.")
    parser.add_argument("--serve", action="store_true", help="keep it running on port 8642")
    asked = parser.parse_args()
    with TemporaryDirectory() as place:
        folder = Path(place)
        with embedded(settings(folder / "platform")) as admin:
            run(admin, folder)
        if asked.serve:
            import uvicorn

            from saibot.platform import create_app

            print(f"admin token: {(folder / 'platform' / 'admin-token').read_text()}")
            uvicorn.run(create_app(settings(folder / "platform")), port=8642)


if __name__ == "__main__":
    main()
