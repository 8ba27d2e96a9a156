"""The ledger is charged before anything is drawn, and a crash never refunds."""

from __future__ import annotations

from typing import Any

import pytest

from saibot.privacy.ledger import Ledger
from saibot.privatize.charging import sketch_path
from tests.support.releases import WAYS, Fails, Interrupted, release, rows


@pytest.mark.fault
@pytest.mark.parametrize("error", [RuntimeError, Interrupted, MemoryError])
@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_the_ledger_is_charged_before_the_first_draw_and_keeps_the_charge(
    ledger: Ledger, options: dict[str, Any], error: type[BaseException]
) -> None:
    noise = Fails(ledger, error)
    with pytest.raises(error):
        release(rows(), ledger, noise=noise, **options)
    assert noise.seen == 1
    account = ledger.account("t")
    assert account is not None and account.spent_epsilon > 0
    assert [entry.to_json()["state"] for entry in account.entries] == ["spent, nothing released"]
    assert not (ledger.home / "sketches").exists()
    # Asked again, it is charged again: a crash may waste budget, it never refunds it.
    release(rows(), ledger, **options)
    account = ledger.account("t")
    assert account is not None
    assert [entry.to_json()["state"] for entry in account.entries] == ["spent, nothing released", "released"]


@pytest.mark.fault
def test_a_disk_that_fails_after_the_draw_leaves_the_charge_and_no_half_file(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full_disk)
        with pytest.raises(OSError, match="No space"):
            release(rows(), ledger)
    assert list((ledger.home / "sketches").iterdir()) == []
    account = ledger.account("t")
    assert account is not None and account.entries[0].digest is None


@pytest.mark.fault
def test_a_receipt_that_cannot_be_written_leaves_the_charge(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(self: Ledger, *_: Any) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "receipt", gone)
        with pytest.raises(Interrupted):
            release(rows(), ledger)
    account = ledger.account("t")
    assert account is not None and [entry.digest for entry in account.entries] == [None]


def test_the_receipt_comes_after_the_sketch_is_on_disk(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk = []
    original = Ledger.receipt

    def watched(self: Ledger, entry: Any, digest: str) -> None:
        on_disk.append(sketch_path(self, digest).is_file())
        original(self, entry, digest)

    monkeypatch.setattr(Ledger, "receipt", watched)
    release(rows(), ledger)
    assert on_disk == [True]
