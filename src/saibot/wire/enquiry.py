"""An enquiry: a requester asks a provider for more than is published, and the provider grants a dataset or refuses."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from saibot.wire.dataset import Cost
from saibot.wire.shapes import Shape

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]
Words = Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000)]
SomeWords = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
DatasetId = Annotated[str, StringConstraints(min_length=1, max_length=40)]

TELLS = (  # what every face says before an enquiry leaves
    "An enquiry tells the provider who you are and what you are after. That may tell what a search on your own machine "
    "has found."
)


class Enquire(Shape):
    """What a requester asks for. `understood` is the requester's own word that asking tells what a search has found."""

    dataset: DatasetId = Field(description="The published dataset that the enquiry is about.")
    columns: tuple[Name, ...] = Field(default=(), max_length=50, description="Columns that are wanted.")
    keys: tuple[Name, ...] = Field(default=(), max_length=10, description="Keys that they are wanted by.")
    budget: Cost | None = Field(default=None, description="Budget that the release should have.")
    why: SomeWords = Field(description="What it is for, in your own words.")
    understood: Literal[True] = Field(description="Asking tells the provider what you are after, and that is agreed to.")


class EnquiryGrant(Shape):
    """A provider's yes: one of its published datasets, which the requester may use from now on."""

    dataset: DatasetId
    words: Words = Field(default="", description="What else there is to say.")


class EnquiryRefusal(Shape):
    """A provider's no, with its reason."""

    reason: SomeWords


class Enquiry(Shape):
    """An enquiry as both sides see it."""

    id: str
    requester: str
    provider: str
    dataset: str = Field(description="The dataset that it is about.")
    name: str = Field(description="What that dataset is called.")
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    budget: Cost | None
    why: str
    status: Literal["open", "granted", "refused"]
    answer: str = Field(description="The provider's words: why it refuses, or what goes with a grant.")
    granted: str | None = Field(description="The dataset that was granted.")
    asked: str
    answered: str | None


class DatasetGrant(Shape):
    """An account that may use a dataset whose visibility is `granted`."""

    account: str
    since: str
