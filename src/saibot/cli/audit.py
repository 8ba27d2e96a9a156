"""`saibot audit`: attack the release and compare what it gives away with what is claimed."""

from __future__ import annotations

from typing import Annotated

import typer

from saibot.cli.show import JsonOption, number, print_json, print_table, progress


def add_to(app: typer.Typer) -> None:
    app.command("audit")(audit)


def audit(
    releases: Annotated[
        int, typer.Option(help="Releases of each of two neighbouring tables, per mechanism.", min=100)
    ] = 4000,
    noise_factor: Annotated[float, typer.Option(help="Break the noise on purpose, to see the audit notice: 0.7.")] = 1.0,
    json: JsonOption = False,
) -> None:
    """Attack every mechanism's real release: a lower bound on what it reveals, against the claim.

    Exits with 1 if a claim is disproved. One that is not disproved is not thereby proved: that is what the proofs are for.
    """
    from saibot.audit.likelihood_ratio import RescaledNoise, audit_all

    noise = None if noise_factor == 1.0 else RescaledNoise(noise_factor)
    with progress(quiet=json) as tell:
        findings = audit_all(releases=releases, noise=noise, tell=tell)
    if json:
        print_json({"findings": [finding.to_json() for finding in findings]})
    else:
        rows = [
            [
                f.mechanism,
                f.layout,
                f.noise,
                number(f.claim),
                number(f.lower_bound),
                "BROKEN" if f.broken else "not disproved",
            ]
            for f in findings
        ]
        title = f"audit: {releases} releases each, separation in normal deviates (μ for Gaussian noise)"
        print_table(title, ["mechanism", "layout", "noise", "claimed", "shown at least", "verdict"], rows, right=(3, 4))
    if any(finding.broken for finding in findings):
        raise typer.Exit(1)
