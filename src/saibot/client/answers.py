"""What a platform answers, as typed values. Fields that a later platform may add are passed over, never refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from saibot.client.errors import PlatformUnreachable

Progress = Callable[[str, float | None], None]


class Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Account(Answer):
    """Whom a token speaks for."""

    name: str
    roles: tuple[str, ...]


class Token(Answer):
    """A token as the platform lists it. Its text is shown once, when it is made: see `NewToken`."""

    id: str
    name: str
    roles: tuple[str, ...]
    created: str | None = None
    expires: str | None = None
    revoked: str | None = None
    last_used: str | None = None


class NewToken(Token):
    token: str

    def __repr__(self) -> str:
        return f"NewToken(id={self.id!r}, name={self.name!r}, roles={self.roles!r})"  # the text stays out of logs


class Domain(Answer):
    """A registered key domain without its keys."""

    id: str
    version: int
    size: int
    digest: str
    keys_digest: str
    levels: tuple[str, ...] = ()


class DatasetKeyPart(Answer):
    name: str
    domain: str
    version: int
    size: int
    keys_digest: str = ""


class DatasetKey(Answer):
    name: str
    parts: tuple[DatasetKeyPart, ...]
    levels: tuple[str, ...] = ()


class DatasetFeature(Answer):
    name: str
    kind: str
    unit: str = ""
    lower: float | None = None
    upper: float | None = None


class DatasetVersion(Answer):
    version: int
    digest: str
    published: str


class Dataset(Answer):
    """A published sketch as the platform describes it. `profile` and `versions` come with a single dataset, not in lists."""

    id: str
    provider: str
    name: str
    title: str = ""
    description: str = ""
    individual: str = ""
    key: DatasetKey | None = None
    features: tuple[DatasetFeature, ...] = ()
    rows: int | None = None
    budget: dict[str, str]
    mechanism: str = ""
    layout: str = ""
    neighbours: str = ""
    visibility: str = "public"
    version: int = 1
    digest: str
    bytes: int = 0
    published: str = ""
    expires: str | None = None
    profile: dict[str, Any] | None = None
    versions: tuple[DatasetVersion, ...] = ()


class Relative(Answer):
    """A dataset that joins or unions with another one; `share` is of that one's keys, for a join."""

    id: str
    provider: str
    name: str
    rows: int | None = None
    digest: str
    key: str | None = None
    on: tuple[str, ...] = ()
    share: float | None = None
    signal: float | None = None
    why: str = ""


class RelatedDatasets(Answer):
    id: str
    joins: tuple[Relative, ...]
    unions: tuple[Relative, ...]


class SliceItem(Answer):
    """One sketch of a corpus slice."""

    id: str
    digest: str
    bytes: int
    dataset: str = ""


class SearchProgress(Answer):
    stage: str = ""
    part: float | None = None


class Search(Answer):
    """A search on the platform. `error` says why it failed."""

    id: str
    status: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: SearchProgress = SearchProgress()
    created: str | None = None
    started: str | None = None
    finished: str | None = None
    target: str = ""
    error: dict[str, Any] | None = None

    @property
    def over(self) -> bool:
        return self.status in ("done", "failed", "cancelled")


Kind = TypeVar("Kind", bound=Answer)


def read_answer(kind: type[Kind], document: Any) -> Kind:
    """The typed value of an answer; one that does not fit did not come from a platform that we know."""
    try:
        return kind.model_validate(document)
    except ValidationError as problem:
        place = ".".join(str(step) for step in problem.errors(include_input=False, include_url=False)[0]["loc"])
        raise PlatformUnreachable(
            f"the platform's answer is not the {kind.__name__.lower()} that was asked for (at {place!r}).",
            hint="It may run another version of Saibot.",
        ) from None
