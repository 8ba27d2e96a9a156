"""What a provider says of a table beside its sketches: it can be said, and changed, after they are published."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from saibot.wire.shapes import Shape

Line = Annotated[str, StringConstraints(strip_whitespace=True, max_length=200)]
Tag = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=40)]


class About(Shape):
    """Of a table, by whichever keys it is published."""

    licence: Line = Field(default="", description="What others may do with it: `CC BY 4.0`, or an address.")
    contact: Line = Field(default="", description="Whom to ask: an address of a page or a mailbox.")
    tags: tuple[Tag, ...] = Field(default=(), max_length=20, description="A few words that it belongs to.")
    more: Annotated[str, StringConstraints(max_length=20_000)] = Field(
        default="", description="Markdown, shown below the description. HTML in it stays text."
    )
