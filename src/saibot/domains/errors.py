"""What can go wrong with public key domains, under `InvalidDomain` of the package's tree.

InvalidDomain
├── DomainConflict   this id and version stand for other keys already
└── UnknownDomain    no such domain is registered, imported or shipped
"""

from __future__ import annotations

from saibot.errors import InvalidDomain


class DomainConflict(InvalidDomain):
    """An id and version mean one list of keys for good: sketches out there speak of it."""

    def __init__(self, id: str, version: int, *, registered: str, offered: str) -> None:
        super().__init__(
            f"the key domain {id!r} version {version} is registered with other content: "
            f"digest {registered[:12]}…, not {offered[:12]}….",
            hint="A changed list of keys, an added level included, needs a new version number.",
        )
        self.id, self.version, self.registered, self.offered = id, version, registered, offered


class UnknownDomain(InvalidDomain):
    """A domain was asked for by a name or digest that nobody knows here."""

    def __init__(self, what: str, *, hint: str | None = None) -> None:
        super().__init__(f"no key domain {what} is known.", hint=hint)
