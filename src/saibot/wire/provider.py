"""Who stands behind a dataset: a provider's standing on a platform, its keys, and what is hard to believe of a sketch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from saibot.wire.shapes import Shape

KeyText = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]  # a public key
Proof = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{128}$")]  # a signature


class Flag(Shape):
    """A claim of a sketch that its own numbers contradict, or that nobody can believe. It is told, and nothing else."""

    code: str = Field(description="For programs; never changes: rows, many-rows, noise, bounds, sums, spread.")
    text: str


class EarlierKey(Shape):
    """A key that a provider signed with before."""

    key: KeyText
    fingerprint: str
    until: str = Field(description="When another took its place, or an admin took it back.")
    proof: Proof | None = Field(description="Its signature for the key that followed it; none where an admin took it back.")
    next: KeyText | None = Field(description="The key that followed it.")


class ProviderStanding(Shape):
    """What a platform says of a provider. In a folder of sketches a provider is a key, and nobody speaks for it."""

    name: str = Field(description="The account; in a folder the fingerprint of the key that signed.")
    verified: bool = Field(default=False, description="Whether an admin of the platform has verified who this is.")
    verified_since: str | None = None
    since: str | None = Field(default=None, description="When it first published something here.")
    datasets: int = Field(description="How many of its datasets the caller may know of.")
    key: KeyText | None = Field(default=None, description="The public key that its sketches are signed with.")
    fingerprint: str | None = Field(default=None, description="Of that key, for people to compare.")
    earlier_keys: tuple[EarlierKey, ...] = ()
    known_as: str | None = Field(
        default=None,
        exclude_if=lambda name: name is None,
        description="By whose name this machine knows the key, from an earlier look at a platform.",
    )


class AccountKey(Shape):
    """The key that an account's sketches have to be signed with, if it has one."""

    account: str
    key: KeyText | None
    fingerprint: str | None


class KeyChallenge(Shape):
    """What a key has to sign, once and soon, to become an account's."""

    account: str
    challenge: str


class NewKey(Shape):
    """A key, its signature of the platform's challenge, and where it follows another one, that one's signature for it."""

    key: KeyText
    proof: Proof
    by_old_key: Proof | None = None
