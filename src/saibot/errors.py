"""Every error a user can meet, as one tree.

SaibotError
├── InvalidInput          a value that cannot be used: budget, bound, option, card, table
│   ├── InvalidBudget
│   ├── InvalidCard
│   ├── InvalidDomain     (discover: DomainConflict, UnknownDomain)
│   ├── InvalidOption     (wire: an option of a search)
│   ├── InvalidTable
│   ├── SemiringError     (semiring: names, bases, keys and overflows of the algebra)
│   └── UnsupportedPlan   a mechanism asked for something that its proof does not cover
├── BudgetExceeded        the ledger's cap would be passed; carries asked and left
├── LedgerConflict        the ledger knows this dataset, or its individuals, under other terms
├── InvalidSketch         a sketch file that is truncated, tampered with or of another format
└── PlatformError         (client: what a platform refuses, or does not answer)

A message says what was asked and what is allowed, the hint what to do next. Neither ever quotes a cell: what a row holds
may not leave through an error.
"""

from __future__ import annotations


class SaibotError(Exception):
    """Base of all errors with a message for people; `hint` is the next step, where there is one."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} {self.hint}"


class InvalidInput(SaibotError):
    """A value that cannot be used as given."""


class InvalidBudget(InvalidInput):
    """Epsilon or delta outside the range in which the guarantee means anything."""


class InvalidCard(InvalidInput):
    """The dataset card misses a fact or contradicts itself."""


class InvalidDomain(InvalidInput):
    """A public key domain that cannot serve as one."""


class InvalidTable(InvalidInput):
    """The table does not fit its card: a column is missing or has the wrong type."""


class UnsupportedPlan(InvalidInput):
    """A combination that the mechanism's proof does not cover."""


class BudgetExceeded(SaibotError):
    """The ledger refuses a release, before any noise was drawn."""

    def __init__(self, *, dataset: str, account: str, asked: str, left: str, cap: str) -> None:
        of = "its cap" if account == dataset else f"the cap of the account {account!r},"
        super().__init__(
            f"Releasing {dataset!r} asks for {asked}, but {left} is left of {of} {cap}.",
            hint=f"Lower --epsilon, or see `saibot ledger {account}`.",
        )
        self.dataset, self.account, self.asked, self.left, self.cap = dataset, account, asked, left, cap


class LedgerConflict(SaibotError):
    """The ledger has this dataset under other terms than those asked for."""


class InvalidSketch(SaibotError):
    """Not a sketch file that can be trusted to say what its provider wrote."""
