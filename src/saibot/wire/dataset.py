"""A published dataset as it is shown: everything from the sketch's header, which is public or was paid for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field

from saibot.wire.shapes import Shape

if TYPE_CHECKING:  # the command line reads these shapes, and computes nothing
    from saibot.sketch import Sketch


class KeyPart(Shape):
    name: str
    domain: str
    version: int
    size: int
    digest: str
    keys_digest: str


class Key(Shape):
    name: str
    parts: tuple[KeyPart, ...]
    levels: tuple[str, ...]

    @property
    def domain(self) -> str:
        """Domains of a composite key are joined by `+`."""
        return "+".join(part.domain for part in self.parts)


class Feature(Shape):
    name: str
    kind: Literal["numeric", "indicator", "component"]
    unit: str
    lower: float
    upper: float


class Budget(Shape):
    epsilon: str
    delta: str


class Dataset(Shape):
    id: str
    provider: str
    name: str
    title: str
    description: str
    individual: str
    key: Key | None
    features: tuple[Feature, ...]
    rows: int | None
    budget: Budget
    mechanism: str
    layout: str
    neighbours: str
    visibility: Literal["public", "restricted"]
    version: int
    digest: str
    bytes: int
    published: str
    expires: str | None

    @classmethod
    def of(cls, sketch: Sketch, **publication: Any) -> Self:
        """What a sketch says of itself, and of its publication: id, provider, visibility, version, bytes and days."""
        header, request = sketch.header, sketch.plan.request
        said = header.dataset.model_dump() | header.model_dump(include={"budget", "features", "key"})
        said |= {"rows": header.rows, "neighbours": str(header.neighbours), "digest": sketch.digest}
        said |= {"mechanism": request.mechanism, "layout": request.layout}
        return cls.model_validate(said | publication, extra="ignore")


class Version(Shape):
    version: int
    digest: str
    published: str
    bytes: int


class ShownDataset(Dataset):
    """One dataset by itself, with its private profile and its versions."""

    profile: dict[str, Any] | None = Field(description="Count, means, deviations and correlations with their errors.")
    versions: tuple[Version, ...]
    notes: tuple[str, ...]


class CorpusEntry(Shape):
    """One sketch of a corpus, or of a slice of it."""

    id: str
    digest: str
    bytes: int
    dataset: str
    provider: str
    key: str | None
    domain: str | None = Field(description="Of the key; domains of a composite key are joined by `+`.")

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
        )
