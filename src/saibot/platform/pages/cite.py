"""How to cite a dataset: which version of which sketch, by whom, where, and how private it is."""

from __future__ import annotations

import re
from typing import Any

_SPECIAL = re.compile(r"[{}\\]")


def sentence(dataset: dict[str, Any], origin: str) -> str:
    title = dataset["title"] or dataset["name"]
    key = f" by {dataset['key']['name']}" if dataset["key"] else ""
    return (
        f"{dataset['provider']} ({dataset['published'][:4]}). {title}{key}, version {dataset['version']} "
        f"({_kind(dataset)}; "
        f"sha256 {dataset['digest'][:16]}). {origin}/datasets/{dataset['id']}"
    )


def bibtex(dataset: dict[str, Any], origin: str) -> str:
    """Braces and backslashes of strangers are left out: what is pasted stays one entry."""
    key = re.sub(r"[^A-Za-z0-9]+", "-", f"{dataset['provider']}-{dataset['name']}-v{dataset['version']}").strip("-")
    fields = {
        "title": dataset["title"] or dataset["name"],
        "author": dataset["provider"],
        "year": dataset["published"][:4],
        "version": str(dataset["version"]),
        "howpublished": f"{origin}/datasets/{dataset['id']}",
        "note": f"{_kind(dataset)}, sha256 {dataset['digest']}",
    }
    lines = [f"  {name} = {{{_SPECIAL.sub('', value)}}}" for name, value in fields.items()]
    return f"@misc{{{key},\n" + ",\n".join(lines) + "\n}"


def _kind(dataset: dict[str, Any]) -> str:
    if dataset["open"]:
        return f"exact sketch of an open table, {dataset['source']}"
    budget = dataset["budget"]
    return f"differentially private sketch, epsilon {budget['epsilon']}, delta {budget['delta']}"
