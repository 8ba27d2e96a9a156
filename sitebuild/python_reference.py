"""The Python reference, from docstrings and signatures: what a provider, a requester or an operator imports.

Pages are made when the site is built and kept nowhere. What a room offers (`__all__`) is on a page, or is named in LEFT_OUT
with the reason.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections import ChainMap
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

PAGES: dict[str, tuple[str, str, dict[str, tuple[str, ...]]]] = {
    "providers": (
        "For providers",
        "Turn rows into a sketch on your own machine, and publish the sketch. "
        "[Publish a table](../../guides/publish-a-table.md) shows them at work; the extra `provider` installs them.\n\n"
        "| in signatures | means |\n|---|---|\n"
        "| `TableLike` | the path of a CSV, Parquet or Arrow file, a frame of pandas, Polars or Spark, an Arrow table, or a "
        "table of ibis |\n"
        "| `CardLike` | a `Card`, the path of one, or a dict with the same fields |\n"
        '| `Amount` | a budget as a number or, exactly, as a text: `1`, `"0.5"`, `"1e-6"` |\n'
        "| `Progress` | a function that is told what is going on and how far it is |\n"
        "| `Note` | a function that is told sentences for the provider alone |",
        {
            "saibot.client": ("Provider", "SigningKeys", "open_sketches"),
            "saibot.privatize": (
                *("Card", "make_card", "ReleaseRequest", "privatize", "privatize_by_keys", "Released", "dry_run"),
                *("dry_run_by_keys", "DryRun", "JointDryRun", "look_at", "RowsLook", "prepare", "Prepared", "contribute"),
            ),
            "saibot.privacy": ("Budget", "Neighbours", "Spent"),
            "saibot.privacy.ledger": ("Ledger",),
        },
    ),
    "requesters": (
        "For requesters",
        "Ask which published tables improve a model, and use what was found. "
        "[Search for tables](../../guides/search-for-tables.md) shows them at work; the extra `local` installs them.",
        {
            "saibot.client": (
                *("Requester", "SearchOptions", "Augmented", "LinearModel", "Job", "find_augmentation", "local_request"),
                *(
                    "private_request",
                    "SearchRequest",
                    "KeyColumn",
                    "Corpus",
                    "pack_sketches",
                    "Packed",
                    "Published",
                    "discover",
                ),
                *("synthesize", "Kept", "Domains", "ValueSource", "Enquiries", "KnownSigners"),
            ),
        },
    ),
    "scikit-learn": (
        "The search in scikit-learn",
        "`fit` searches at home, `transform` joins. The extra `sklearn` installs it.",
        {"saibot.sklearn": ("PrivateAugmenter", "PrivateRegressor")},
    ),
    "platforms": (
        "Platforms",
        "Talk to a platform, run one inside a process, or serve one. The shapes of answers are those of "
        "[HTTP](../http.md#shapes).",
        {
            "saibot.client": ("Platform", "connect", "Config", "SketchCache", "KnownSigners"),
            "saibot.embedded": ("embedded", "make_app"),
            "saibot.platform": ("create_app", "open_platform", "Settings"),
        },
    ),
    "sketches": (
        "Sketches and keys",
        "What crosses the trust boundary, and the public lists of keys that tables are joined by.",
        {
            "saibot.sketch": (
                "read_sketch",
                "read_header",
                "write_sketch",
                "Sketch",
                "Header",
                "Feature",
                "Key",
                "KeyPart",
                "LevelTable",
                "collect",
                "signed",
                "signer_of",
                "SigningKey",
                "PublicKey",
                "implausible",
                "Implausible",
                "payload_of",
            ),
            "saibot.domains": (
                "KeyDomain",
                "named_domain",
                "vocabulary",
                "Vocabulary",
                "generated_domain",
                "align",
                "align_each",
                "Alignment",
            ),
        },
    ),
    "estimates": (
        "Estimates",
        "From a sketch to numbers with errors, at no further budget. "
        "[Mathematics](../../explanation/mathematics.md) derives them.",
        {
            "saibot.estimate": (
                *("preview", "Preview", "lookup_values", "LookupValues", "profile", "Profile", "totals", "Totals"),
                *("moments_of_sketch", "r2_interval", "gain_interval", "GainInterval", "coefficient_interval", "Interval"),
            ),
            "saibot.discover": ("related", "Joinable", "NotJoinable", "find_unions", "Addable", "NotAddable"),
            "saibot.search": ("search", "SearchResult"),
        },
    ),
    "errors": (
        "Errors",
        "Everything that Saibot refuses is a `SaibotError`: what was asked, what is allowed, and a hint at what to do.",
        {
            "saibot.errors": ("SaibotError", "InvalidInput"),
            "saibot.client": (
                "PlatformError",
                "PlatformUnreachable",
                "PlatformBusy",
                "NotAllowed",
                "NotFound",
                "SearchFailed",
            ),
        },
    ),
}

LEFT_OUT = {  # rooms' own names that are on no page, and why
    "saibot.client": {
        "shapes of answers, on the page of HTTP": (
            *("Account", "Dataset", "Domain", "Enquiry", "NewToken", "ProviderStanding", "Search", "Token"),
        ),
    },
    "saibot.privacy": {
        "entries of a ledger, which Ledger shows": ("Event", "GaussianEvent", "PureEvent", "ChoiceEvent", "KeysEvent"),
    },
    "saibot.sketch": {
        "constants of the file": ("OTHER", "SUFFIX"),
        "how a sketch lists its keys to a registry": ("listed_domain",),
        "how pages read some of a sketch": ("at_level", "read_part"),
    },
    "saibot.domains": {
        "the room's own: how lists are kept, spelled and told apart": (
            *("OTHER", "DomainCard", "DomainConflict", "DomainRegistry", "KnownDomains", "NamedDomain", "UnknownDomain"),
            *("different", "doubt", "folded", "imported_domains", "keys_digest", "level_domain", "normal_key", "spellings"),
            *("capitals", "key_labels", "spelled_size"),
        ),
    },
    "saibot.estimate": {
        "steps inside the estimators, derived on the page of mathematics": (
            *("JoinedMoments", "exact_moments", "join_gram", "joined", "level_interval", "paper_weights", "ratio_values"),
            *("shrink", "stop_quantile"),
        ),
    },
    "saibot.discover": {
        "what the search and the pages ask with": (
            *("FeatureMap", "KeyLists", "Meeting", "Meetings", "OwnKeys", "Subject", "match_union"),
        ),
    },
    "saibot.search": {"for whoever writes a strategy: its module says how": ("Greedy", "RequestKey", "Strategy")},
}


def pages() -> dict[str, str]:
    return {f"reference/python/{name}.md": "\n".join(_page(*facts)) + "\n" for name, facts in PAGES.items()}


def _page(title: str, opening: str, rooms: dict[str, tuple[str, ...]]) -> Iterator[str]:
    yield from (f"# {title}", "", opening, "")
    for room, names in rooms.items():
        module = import_module(room)
        for name in names:
            yield from _entry(room, name, getattr(module, name))


def _entry(room: str, name: str, thing: Any) -> Iterator[str]:
    yield from (f"## {name}", "", f"`from {room} import {name}`", "")
    if not inspect.isclass(thing):
        yield from (_signature(name, thing), "", _prose(thing), "")
        return
    if _constructed(thing):
        yield from (_signature(name, thing), "")
    yield from (_prose(thing), "")
    yield from _fields(thing)
    for part, member in _members(thing):
        if isinstance(member, property):
            yield from (f"### {name}.{part}", "", _prose(member), "")
        else:
            function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            yield from (f"### {name}.{part}", "", _signature(f"{name}.{part}", function), "", _prose(function), "")


def _constructed(thing: type) -> bool:
    """Whether people make one themselves: not an error, not a choice among names, and no shape with a table of fields."""
    if issubclass(thing, BaseException) or hasattr(thing, "__members__") or hasattr(thing, "model_fields"):
        return False
    return "__init__" in _own(thing) and not dataclasses.is_dataclass(thing)


def _own(thing: type) -> Mapping[str, Any]:
    """What a class has of its own or of one that it extends in its room, a shape aside: all shapes have the same verbs."""
    room = thing.__module__.rpartition(".")[0]
    others = [kind for kind in thing.__mro__[1:] if kind.__module__.rpartition(".")[0] == room]
    return ChainMap(*(dict(vars(kind)) for kind in (thing, *others) if kind is thing or not hasattr(kind, "model_fields")))


def _members(thing: type) -> Iterator[tuple[str, Any]]:
    for part, member in _own(thing).items():
        if part.startswith("_") or getattr(member, "__isabstractmethod__", False):
            continue
        if isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(member):
            documented = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if inspect.getdoc(documented) or inspect.isfunction(documented):
                yield part, member


def _fields(thing: type) -> Iterator[str]:
    """A table of what such a thing has: fields of a shape, of a dataclass, or the names to choose from."""
    rows = []
    if hasattr(thing, "__members__"):
        rows = [(f"`{name}`", f"`{one.value}`", "") for name, one in thing.__members__.items()]
    elif hasattr(thing, "model_fields"):
        rows = [
            (f"`{name}`", _type(facts.annotation), facts.description or "") for name, facts in thing.model_fields.items()
        ]
    elif dataclasses.is_dataclass(thing):
        said = _comments(thing)
        public = [one for one in dataclasses.fields(thing) if not one.name.startswith("_")]
        rows = [(f"`{one.name}`", _type(one.type), said.get(one.name, "")) for one in public]
    if rows:
        yield from ("| field | type | |", "|---|---|---|")
        yield from (f"| {name} | {kind} | {_cell(told)} |" for name, kind, told in rows)
        yield ""


def _comments(thing: type) -> dict[str, str]:
    """What stands behind a field in the source: `rows: int  # of the table`."""
    try:
        source = inspect.getsource(thing)
    except OSError:
        return {}
    return {name: told.strip() for name, told in re.findall(r"^    (\w+): [^#\n]*#(.*)$", source, re.MULTILINE)}


def _signature(name: str, thing: Any) -> str:
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    parameters = [
        one for place, one in enumerate(found.parameters.values()) if not (place == 0 and one.name in ("self", "cls"))
    ]
    parts, starred = [], False
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and not starred:
            starred = True
            if not any(other.kind is other.VAR_POSITIONAL for other in parameters):
                parts.append("*")
        stars = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
        kind = "" if one.annotation is one.empty else f": {_annotation(one.annotation)}"
        default = "" if one.default is one.empty else f"{' = ' if kind else '='}{_default(one.default)}"
        parts.append(f"{stars}{one.name}{kind}{default}")
    gives = "" if found.return_annotation in (found.empty, None, "None") else f" -> {_annotation(found.return_annotation)}"
    line = f"{name}({', '.join(parts)}){gives}"
    if len(line) > 96:
        inner = "".join(f"    {part},\n" for part in parts)
        line = f"{name}(\n{inner}){gives}"
    return f"```{{ .python .signature }}\n{line}\n```"


def _annotation(kind: Any) -> str:
    text = kind if isinstance(kind, str) else inspect.formatannotation(kind)
    return re.sub(r"\b(?:saibot|pandas|numpy|pathlib|typing|collections\.abc)(?:\.\w+)*\.(?=\w)", "", text).replace("'", "")


def _default(value: Any) -> str:
    if inspect.isfunction(value) or "object at 0x" in repr(value) or len(repr(value)) > 40:
        return "..."
    return repr(value)


def _type(kind: Any) -> str:
    return "`" + _cell(_annotation(kind)) + "`"


def _prose(thing: Any) -> str:
    text = inspect.getdoc(thing) or ""
    # A `word:` section or an example stays as it is; single line breaks are no more than that.
    return textwrap.dedent(text).strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
