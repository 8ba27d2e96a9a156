"""The lines of Python on a dataset's page, which people copy and run."""

from __future__ import annotations

import ast

from saibot.platform.pages.views.dataset import _snippet


def test_a_providers_names_are_no_code_in_the_lines_to_copy() -> None:
    name = 'x"); __import__("os").system("id") #\n\'\\'
    tree = ast.parse(_snippet("https://platform.example", {"key": {"name": name}}))
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert {ast.unparse(call) for call in called} == {"Requester", "Platform", "requester.search"}
    assert name in [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
