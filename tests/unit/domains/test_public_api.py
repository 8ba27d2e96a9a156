"""What the package promises to others: its names and its errors."""

from __future__ import annotations

import saibot.domains
from saibot.domains import errors
from saibot.errors import InvalidDomain


def test_every_exported_name_exists_and_the_list_is_sorted() -> None:
    names = saibot.domains.__all__
    assert sorted(names, key=lambda name: (name[0].islower(), not name.isupper(), name)) == names
    assert all(hasattr(saibot.domains, name) for name in names)


def test_every_error_is_exported_and_in_the_tree() -> None:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and c.__module__ == errors.__name__]
    assert len(classes) == 2
    for cls in classes:
        assert issubclass(cls, InvalidDomain)
        assert cls.__name__ in saibot.domains.__all__ and cls.__name__ in str(errors.__doc__)
