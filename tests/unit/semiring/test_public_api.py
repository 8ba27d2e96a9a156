"""What the package promises to others: its names, its errors, its example."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import saibot.semiring
from saibot.errors import InvalidInput
from saibot.semiring import errors

MODULES = ["saibot.semiring", *(f"saibot.semiring.{m.name}" for m in pkgutil.iter_modules(saibot.semiring.__path__))]


def test_every_exported_name_exists_and_the_list_is_sorted() -> None:
    names = saibot.semiring.__all__
    constants = [name for name in names if name.isupper()]
    classes = [name for name in names if name[0].isupper() and not name.isupper()]
    functions = [name for name in names if name[0].islower()]
    assert names == sorted(constants) + sorted(classes) + sorted(functions)
    assert all(hasattr(saibot.semiring, name) for name in names)


def test_every_error_is_exported_in_the_tree_and_a_value_error() -> None:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and c.__module__ == errors.__name__]
    for cls in classes:
        assert issubclass(cls, ValueError) and issubclass(cls, InvalidInput)
        assert cls.__name__ in saibot.semiring.__all__
        assert cls.__name__ in str(errors.__doc__)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_documentation_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_package_has_a_worked_example() -> None:
    assert doctest.testmod(saibot.semiring).attempted >= 5
