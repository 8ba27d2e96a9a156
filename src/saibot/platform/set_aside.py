"""Files that no row of the database names: set aside, told, and given back. Never deleted.

A database that does not know a file may be an older one than the file: a start on it must not cost anybody a sketch. What
is set aside keeps its name below `set-aside/` in the file store. It comes back by itself when a database names it again,
and by `saibot aside --restore` where none does.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass

from sqlalchemy import select

from saibot.domains.file import read_domain
from saibot.errors import InvalidDomain, InvalidInput, InvalidSketch
from saibot.platform.storage.database import Database
from saibot.platform.storage.file_names import domain_file_name, sketch_file_name
from saibot.platform.storage.files import SET_ASIDE, SKETCH_FILE, FileStore, is_own
from saibot.platform.storage.tables import datasets, domains, versions
from saibot.sketch import read_sketch


@dataclass(frozen=True)
class FilesFound:
    """What a start found in the file store."""

    set_aside: int  # files that no row names, moved away now
    given_back: int  # files that a row names, moved back now
    missing: tuple[str, ...]  # names of files that a row names and that are nowhere

    def __bool__(self) -> bool:
        return bool(self.set_aside or self.given_back or self.missing)


@dataclass(frozen=True)
class SetAside:
    """A file that is set aside: a sketch, and its table's name, or a key domain, and its id with its version (`wards@1`).

    Neither where the file is damaged.
    """

    name: str
    digest: str
    bytes: int
    dataset: str | None
    domain: str | None

    def to_json(self) -> dict[str, str | int | None]:
        return asdict(self)


@dataclass(frozen=True)
class NamedFiles:
    """The files that the database names, and those among them whose withdrawal is under way: they may be gone already."""

    all: frozenset[str]
    leaving: frozenset[str]


def named_files(database: Database) -> NamedFiles:
    joined = select(versions.c.digest, datasets.c.state).join(datasets, datasets.c.number == versions.c.dataset)
    with database.read() as connection:
        found = [(sketch_file_name(row.digest), row.state) for row in connection.execute(joined)]
        lists = [domain_file_name(row.digest) for row in connection.execute(select(domains.c.digest))]
    live = {name for name, state in found if state == "live"}
    names = {name for name, _ in found}
    return NamedFiles(frozenset(names.union(lists)), frozenset(names - live))


def bring_in_order(files: FileStore, named: NamedFiles, *, move: bool = True) -> FilesFound:
    """Set aside our files that nothing names, give back those that something names; only safe while nobody publishes.

    Without `move`, only tell which files are nowhere.
    """
    wanted, present = named.all, set(files.names())
    strays = sorted(name for name in present if move and is_own(name) and name not in wanted)
    for name in strays:
        files.move(name, SET_ASIDE + name)
    back = sorted(name for name in wanted - present if move and SET_ASIDE + name in present)
    for name in back:
        files.move(SET_ASIDE + name, name)
    return FilesFound(len(strays), len(back), tuple(sorted(wanted - present - set(back) - named.leaving)))


def list_set_aside(files: FileStore, most: int | None = None) -> list[SetAside]:
    """The sketches and key domains that are set aside, by name; each of them is read."""
    return [_described(files, name) for name in sorted(files.names(SET_ASIDE))[:most]]


def take_out(files: FileStore, digest: str) -> tuple[SetAside, bytes]:
    """A sound file that is set aside, by its digest, and its bytes."""
    for one in list_set_aside(files):
        if one.digest == digest and (one.dataset or one.domain) is not None:
            with files.open(one.name) as file:
                return one, file.read()
    raise InvalidInput(f"no sound file {digest[:12]} is set aside.", hint="`saibot aside` lists those that are.")


def _described(files: FileStore, name: str) -> SetAside:
    with files.open(name) as file:
        content = file.read()
    found = SKETCH_FILE.fullmatch(name.removeprefix(SET_ASIDE))
    digest = found[2] if found else name.rpartition("/")[2].partition(".")[0]
    dataset = domain = None
    with suppress(InvalidSketch, InvalidDomain):
        if found:
            sketch = read_sketch(content)
            dataset = sketch.header.dataset.name if sketch.digest == digest else None
        else:
            card, _ = read_domain(content, name=digest)
            domain = f"{card.id}@{card.version}" if card.digest == digest else None
    return SetAside(name, digest, len(content), dataset, domain)
