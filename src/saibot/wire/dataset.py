"""A published dataset as it is shown: everything from the sketch's header, which is public or was paid for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field

from saibot.wire.provider import Flag
from saibot.wire.shapes import Shape

if TYPE_CHECKING:  # the command line reads these shapes, and computes nothing
    from saibot.sketch import Sketch


LISTED_FEATURES = 50
Visibility = Literal["public", "restricted", "granted"]  # to everybody, to requesters, to accounts that it was granted to

# Sketches have stricter classes for some of these. Here they are as people are shown them, and have names of their own:
# JoinKey and JoinKeyPart are `sketch.Key` and `sketch.KeyPart` field by field, ShownFeature is some of `sketch.Feature`,
# Cost is `privacy.Budget`. `Dataset.of` is where the ones become the others.


class JoinKeyPart(Shape):
    """One part of a key, and the public domain that its values come from."""

    name: str
    domain: str
    version: int
    size: int
    digest: str
    keys_digest: str


class JoinKey(Shape):
    """What a table can be joined by; nested coarser levels, finest first, for a key of one part."""

    name: str
    parts: tuple[JoinKeyPart, ...]
    levels: tuple[str, ...]

    @property
    def domain(self) -> str:
        """Domains of a composite key are joined by `+`."""
        return "+".join(part.domain for part in self.parts)


class ShownFeature(Shape):
    """A column of statistics: its public bounds in its unit."""

    name: str
    kind: Literal["numeric", "indicator", "component"]
    unit: str
    lower: float
    upper: float


class Cost(Shape):
    """Epsilon and delta as decimal texts, so that no reader turns them into other numbers."""

    epsilon: str
    delta: str

    def __str__(self) -> str:
        return f"ε={self.epsilon}, δ={self.delta}"


class Dataset(Shape):
    """One sketch of a table. Those of one provider with one name are of one table; `keys` are what all of them are by."""

    id: str
    provider: str
    name: str
    title: str
    description: str
    individual: str
    key: JoinKey | None = Field(description="Of this sketch.")
    keys: tuple[JoinKey, ...] = Field((), description="By which the table is published here, that of this sketch first.")
    features: tuple[ShownFeature, ...] = Field(description=f"In lists the first {LISTED_FEATURES}; of one dataset all.")
    feature_count: int | None = Field(None, description="How many features there are.")
    rows: int | None
    budget: Cost | None = Field(description="What it cost. An open table has none: it has no privacy cost.")
    account: str | None = Field(None, description="Whose individuals these are, by a name that only the provider can tell.")
    spent: Cost | None = Field(
        None, description="What all sketches of the account together have cost, as far as sketches that are here say so."
    )
    open: bool = Field(False, description="Whether it is an exact public table, which protects nobody.")
    source: str | None = Field(None, description="Of an open table: where everybody can get it, as its provider says.")
    confirmed: bool = Field(
        False, description="Whether an admin has confirmed that source. Before, an open table teaches no shared factors."
    )
    mechanism: str
    layout: str
    neighbours: str
    visibility: Visibility
    version: int
    digest: str
    bytes: int
    published: str
    expires: str | None
    verified: bool = Field(False, description="Whether an admin has verified who its provider is.")
    signer: str | None = Field(None, description="Fingerprint of its provider's key that signed the sketch, if one did.")
    copy_of: str | None = Field(
        None,
        description="The dataset that has the same numbers and was here before, or is of a verified provider. Empty where "
        "the caller may not know of it.",
    )
    flags: tuple[Flag, ...] = Field((), description="Claims that are hard to believe; told, and nothing else.")
    tags: tuple[str, ...] = Field((), description="What its provider says that its table belongs to.")

    @classmethod
    def of(cls, sketch: Sketch, **publication: Any) -> Self:
        """What a sketch says of itself, and of its publication: id, provider, visibility, version, bytes and days."""
        header = sketch.header
        fields = {"budget", "features", "key", "account", "spent", "open", "source"}
        said = header.dataset.model_dump() | header.model_dump(include=fields)
        said |= {
            "budget": said["budget"] or None,
            "keys": [said["key"]] if said["key"] else [],
            "features": said["features"][:LISTED_FEATURES],
            "feature_count": len(header.features),
            "rows": header.rows,
            "neighbours": str(header.neighbours),
            "digest": sketch.digest,
        }
        said |= {"mechanism": sketch.mechanism, "layout": sketch.layout}
        return cls.model_validate(said | publication, extra="ignore")


class Version(Shape):
    version: int
    digest: str
    published: str
    bytes: int


class Uses(Shape):
    """How many searches of the platform took a step with a dataset. Searches on requesters' own machines are not known."""

    total: int = Field(description="Since it was published, or since the platform counts.")
    lately: int = Field(description="Of those that are kept.")
    days: float = Field(description="How long they are kept.")


class ShownDataset(Dataset):
    """One dataset by itself, with its private profile and its versions."""

    profile: dict[str, Any] | None = Field(description="Count, means, deviations and correlations with their errors.")
    versions: tuple[Version, ...]
    notes: tuple[str, ...]
    uses: Uses | None = Field(None, description="How often searches have taken it. Earlier platforms do not say.")


class CorpusEntry(Shape):
    """One sketch of a corpus, or of a slice of it."""

    id: str
    digest: str
    bytes: int
    dataset: str
    provider: str
    key: str | None
    domain: str | None = Field(description="Of the key; domains of a composite key are joined by `+`.")
    signer: str | None = Field(None, description="Fingerprint of the key that signed it, if one did.")

    @classmethod
    def of(cls, dataset: Dataset) -> CorpusEntry:
        return cls(
            id=dataset.id,
            digest=dataset.digest,
            bytes=dataset.bytes,
            dataset=dataset.name,
            provider=dataset.provider,
            key=None if dataset.key is None else dataset.key.name,
            domain=None if dataset.key is None else dataset.key.domain,
            signer=dataset.signer,
        )
