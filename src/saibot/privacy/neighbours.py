"""Which two tables must be hard to tell apart."""

from __future__ import annotations

from enum import StrEnum


class Neighbours(StrEnum):
    """The neighbouring relation a guarantee speaks about. Nothing in this package has a default for it.

    `replace-one`: one individual's row is replaced by any other row (its key may change too), so the number of rows is the
    same in both tables and is public. `add-remove`: one individual's row is added or removed, so the number of rows is
    protected as well.
    """

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"
