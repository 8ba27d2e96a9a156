"""How many bytes a provider's files take here: sketches, all versions, and lists of keys together.

Of sketches the database says it. A list of keys is short or long by what its keys are, not by how many: its file is
looked at, once, for what a digest stands for never changes.
"""

from __future__ import annotations

from contextlib import suppress
from io import SEEK_END

from sqlalchemy import Connection, func, select

from saibot.platform.errors import OverQuota
from saibot.platform.storage.file_names import domain_file_name
from saibot.platform.storage.files import FileStore
from saibot.platform.storage.tables import domains, versions


class DiskQuota:
    def __init__(self, files: FileStore) -> None:
        self._files = files
        self._sizes: dict[str, int] = {}  # of lists of keys, by name of their files

    def check(self, connection: Connection, account: str, name: str, size: int, *, most: int) -> None:
        """Before a file of so many bytes is kept under this name. A list that two have registered counts for both."""
        if name.startswith("domains/"):
            self._sizes[name] = size
        if self._sketches(connection, account) + self._lists(connection, account) + size > most:
            raise OverQuota(
                f"with this file {account} would take more than {most:,} bytes.",
                hint="Withdraw datasets or remove key domains that you no longer need, or ask the admin for more.",
            )

    def _sketches(self, connection: Connection, account: str) -> int:
        used = select(func.coalesce(func.sum(versions.c.bytes), 0)).where(versions.c.account == account)
        return int(connection.execute(used).scalar_one())

    def _lists(self, connection: Connection, account: str) -> int:
        digests = select(domains.c.digest).where(domains.c.account == account)
        return sum(self._size(domain_file_name(row.digest)) for row in connection.execute(digests))

    def _size(self, name: str) -> int:
        if name not in self._sizes:
            with suppress(FileNotFoundError):  # told by whoever brings files and database together
                place = self._files.place(name)
                if place is not None:
                    self._sizes[name] = place.stat().st_size
                else:
                    with self._files.open(name) as file:
                        self._sizes[name] = file.seek(0, SEEK_END)
        return self._sizes.get(name, 0)
