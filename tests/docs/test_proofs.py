"""Every mechanism has its proof, every proof has the form we agreed on, and what it points at is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from saibot.privacy import mechanisms

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "saibot"
FOLDER = SOURCE / "privacy" / "mechanisms"
PROOFS = sorted(FOLDER.glob("*.proof.md"))
HEADINGS = (
    "Claim",
    "Preconditions",
    "Pseudocode",
    "Argument",
    "Where we differ from the paper",
    "Tests that probe it",
)
KINDS_OF_PRECONDITION = ("**By type.**", "**Checked at run time.**", "**Trusted from the caller.**")

proofs = pytest.mark.parametrize("proof", PROOFS, ids=lambda path: path.name)


def sections(proof: Path) -> dict[str, str]:
    """The text under each heading, in order."""
    parts = re.split(r"^## (.+)$", proof.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def numbered_lines(proof: Path) -> list[int]:
    return [int(number) for number in re.findall(r"^ ?(\d+)  ", sections(proof)["Pseudocode"], flags=re.MULTILINE)]


@pytest.mark.parametrize("mechanism", mechanisms.MECHANISMS.values(), ids=lambda one: one.name)
def test_every_mechanism_in_the_registry_has_its_own_proof_file_beside_its_plan(mechanism: mechanisms.Mechanism) -> None:
    assert mechanism.proof in PROOFS
    assert mechanism.proof.name == f"{mechanism.name.replace('-', '_')}.proof.md"


def test_the_steps_that_all_mechanisms_share_have_proofs_too() -> None:
    assert {"integer_release.proof.md", "preparation.proof.md"} <= {proof.name for proof in PROOFS}


@proofs
def test_a_proof_has_the_headings_in_their_order(proof: Path) -> None:
    assert tuple(sections(proof)) == HEADINGS


@proofs
def test_no_part_of_a_proof_is_empty(proof: Path) -> None:
    assert all(text.strip() for text in sections(proof).values())


@proofs
def test_preconditions_say_who_makes_sure_of_them(proof: Path) -> None:
    assert re.findall(r"\*\*[A-Z][^*]*\.\*\*", sections(proof)["Preconditions"]) == list(KINDS_OF_PRECONDITION)


@proofs
def test_the_lines_of_the_pseudocode_are_numbered_without_a_gap(proof: Path) -> None:
    lines = numbered_lines(proof)
    assert lines == list(range(1, len(lines) + 1)) and lines


@proofs
def test_the_argument_speaks_of_every_line_but_the_call_of_the_release(proof: Path) -> None:
    argued: set[int] = set()
    for first, last, more in re.findall(r"[Ll]ines? (\d+)(?: to (\d+))?((?:, \d+)*)", sections(proof)["Argument"]):
        argued |= set(range(int(first), int(last or first) + 1)) | {int(n) for n in re.findall(r"\d+", more)}
    final = [
        n for n in numbered_lines(proof) if re.search(rf"^ ?{n}  release \(", sections(proof)["Pseudocode"], re.MULTILINE)
    ]
    missing = set(numbered_lines(proof)) - argued - set(final)
    assert not missing


@proofs
def test_every_test_that_a_proof_names_exists(proof: Path) -> None:
    named = re.findall(r"`(tests/[^`]+)`", sections(proof)["Tests that probe it"])
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []


@proofs
def test_every_file_that_a_proof_names_exists(proof: Path) -> None:
    folder = proof.parent
    missing = []
    for path in re.findall(r"`([\w./]+\.(?:py|md))`", proof.read_text(encoding="utf-8")):
        here = (ROOT / path) if path.startswith("tests/") else (folder / path)
        if not here.is_file() and not (SOURCE / "privatize" / path).is_file():
            missing.append(path)
    assert missing == []


@pytest.mark.parametrize(
    "module", [path for path in sorted(SOURCE.rglob("*.py")) if ".proof.md" in path.read_text(encoding="utf-8")], ids=str
)
def test_every_proof_that_the_code_names_exists(module: Path) -> None:
    for name in re.findall(r"([\w*]+\.proof\.md)", module.read_text(encoding="utf-8")):
        assert list(FOLDER.glob(name)), f"{module.name} names {name}"
