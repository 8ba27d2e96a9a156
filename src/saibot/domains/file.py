"""The file of a registered key domain: Arrow IPC, one row a key, readable by any Arrow tool and strict when we read it.

Columns `key`, then `parent:<name>` for every coarser level on offer; what the file is about as canonical JSON in the schema
metadata under `saibot-domain`. Which levels a sketch uses is the sketch's own business and not in here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from saibot.domains.domain import MAX_KEYS, KeyDomain
from saibot.domains.minhash import PERMUTATIONS
from saibot.errors import InvalidDomain
from saibot.safe_arrow import read_arrow, read_schema

FORMAT: Final = "saibot-domain"
VERSION: Final = 1
SIGNATURE: Final = "saibot-minhash-1"
MAX_PARENTS = 100
MAX_TEXT_BYTES = 1 << 30
Label = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Hex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
SEPARATORS = "\x1e\x1f"  # the digest of a domain joins its keys with these: a key that holds one could pass for two


class DomainCardPart(BaseModel):
    """Base of the card's parts: frozen, strict, nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Parent(DomainCardPart):
    """A coarser level on offer: its name and how many keys it has."""

    name: Label
    size: int = Field(ge=1)


class DomainCard(DomainCardPart):
    """What a domain file says about itself, without its keys."""

    format: Literal["saibot-domain"] = FORMAT
    format_version: Literal[1] = VERSION
    id: Label
    version: int = Field(ge=1, le=1_000_000_000)
    size: int = Field(ge=1)
    parents: tuple[Parent, ...] = Field(default=(), max_length=MAX_PARENTS)
    digest: Hex  # of keys and parents
    keys_digest: Hex  # of the keys alone: what joins

    def canonical(self) -> bytes:
        document = self.model_dump(mode="json")
        return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def card_of(domain: KeyDomain) -> DomainCard:
    """Check that a domain can be registered, and describe it."""
    names = {name for name, _ in domain.parents}
    if len(names) < len(domain.parents) or "" in names:
        raise InvalidDomain(f"the key domain {domain.id!r} has two levels of one name, or one without a name.")
    _check_text(domain)
    parents = (Parent(name=name, size=len(set(column))) for name, column in domain.parents)
    try:
        return DomainCard(
            id=domain.id,
            version=domain.version,
            size=len(domain),
            parents=tuple(parents),
            digest=domain.digest,
            keys_digest=domain.keys_digest,
        )
    except ValidationError as problem:
        first = problem.errors(include_input=False, include_url=False)[0]
        raise InvalidDomain(f"the key domain {domain.id[:50]!r} cannot be registered: {first['msg']}.") from None


def write_domain(domain: KeyDomain, card: DomainCard, *, signature: np.ndarray | None = None) -> bytes:
    """The file of a domain; with a signature of its keys (`saibot.domains.minhash`), where many are to be compared.

    The same domain gives the same bytes.
    """
    sink = pa.BufferOutputStream()
    write_domain_to(sink, domain, card, signature=signature)
    return bytes(sink.getvalue())


def write_domain_to(
    sink: pa.NativeFile, domain: KeyDomain, card: DomainCard, *, signature: np.ndarray | None = None
) -> None:
    """The same into a file that is open."""
    names = ["key", *(f"parent:{name}" for name, _ in domain.parents)]
    columns = (domain.values, *(column for _, column in domain.parents))
    metadata = {FORMAT: card.canonical()}
    if signature is not None:
        metadata[SIGNATURE] = signature.astype("<u4").tobytes()
    schema = pa.schema([pa.field(name, pa.string()) for name in names], metadata=metadata)
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array(column, pa.string()) for column in columns], schema=schema))


def read_card(source: pa.Buffer | bytes, *, name: str) -> DomainCard:
    """What the file is about; its keys are not looked at."""
    with _sound(name):
        return _card(_schema(source))


def read_signature(source: pa.Buffer | bytes, *, name: str) -> tuple[DomainCard, np.ndarray | None]:
    """The same, and the signature of its keys where the file has one."""
    with _sound(name):
        schema = _schema(source)
        content = (schema.metadata or {}).get(SIGNATURE.encode())
        found = None if content is None or len(content) != 4 * PERMUTATIONS else np.frombuffer(content, "<u4")
        return _card(schema), found


def read_sample(source: pa.Buffer | bytes, *, name: str, most: int) -> tuple[DomainCard, list[list[str]]]:
    """What the file is about, and its first lines: each a key and its parents. The others are not looked at."""
    with _sound(name):
        card, batch = _content(source)
        return card, [
            list(row) for row in zip(*(column.slice(0, most).to_pylist() for column in batch.columns), strict=True)
        ]


def read_domain(source: pa.Buffer | bytes, *, name: str) -> tuple[DomainCard, KeyDomain]:
    """The domain, checked against its own digest; anything but a sound file raises InvalidDomain."""
    with _sound(name):
        card, batch = _content(source)
        keys, *parents = tuple(batch.column(0).to_pylist()), *map(_texts, batch.columns[1:])
        named = tuple((parent.name, column) for parent, column in zip(card.parents, parents, strict=True))
        domain = KeyDomain(card.id, card.version, keys, named)
        if card_of(domain) != card:
            raise ValueError("the keys are not those that the card describes")
        return card, domain


def _texts(column: pa.Array) -> tuple[str, ...]:
    """Each text once in memory, not once for every key."""
    encoded = column.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    return tuple([texts[place] for place in encoded.indices.to_pylist()])  # a missing one raises


def _content(source: pa.Buffer | bytes) -> tuple[DomainCard, pa.RecordBatch]:
    card = _card(_schema(source))
    read = read_arrow(pa.py_buffer(source), columns=1 + MAX_PARENTS, types=(pa.string(),))
    if read.schema.names != ["key", *(f"parent:{parent.name}" for parent in card.parents)]:
        raise ValueError("columns")
    (batch,) = read.batches
    if len(batch) != card.size or len(batch) > MAX_KEYS:
        raise ValueError("keys")
    return card, batch


@contextmanager
def _sound(name: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError, InvalidDomain):
        raise InvalidDomain(
            f"the key domain file {name} is cut off, damaged or of another format.",
            hint="Remove it and register the domain again.",
        ) from None


def _schema(source: pa.Buffer | bytes) -> pa.Schema:
    return read_schema(pa.py_buffer(source), columns=1 + MAX_PARENTS)


def _card(schema: pa.Schema) -> DomainCard:
    text = (schema.metadata or {})[FORMAT.encode()]
    return DomainCard.model_validate_json(text)  # a ValidationError is a ValueError


def _check_text(domain: KeyDomain) -> None:
    total = 0
    for column in (domain.values, *(column for _, column in domain.parents)):
        text = "".join(column)
        try:
            total += len(text.encode())
        except UnicodeEncodeError:
            raise InvalidDomain(f"the key domain {domain.id!r} holds a key that is no valid text.") from None
        if any(mark in text for mark in SEPARATORS):
            raise InvalidDomain(f"the key domain {domain.id!r} holds a key with a control character that digests use.")
    if total > MAX_TEXT_BYTES:
        raise InvalidDomain(f"the keys of {domain.id!r} take more than {MAX_TEXT_BYTES >> 20} MiB.")
