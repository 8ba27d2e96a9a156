"""How often searches have taken each dataset is counted for good, and is an order of the catalogue.

Which sketches the kept searches took was by digest. It is by dataset from now on, so that both numbers count the same.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

datasets = sa.table(
    "datasets",
    *(sa.column("number", sa.BigInteger), sa.column("id", sa.String), sa.column("copy_of", sa.BigInteger)),
    sa.column("used", sa.BigInteger),
)
versions = sa.table("versions", sa.column("dataset", sa.BigInteger), sa.column("digest", sa.String))
uses = sa.table("uses", sa.column("search", sa.String), sa.column("digest", sa.String))
taken = sa.table("taken", sa.column("search", sa.String), sa.column("dataset", sa.String))


def upgrade() -> None:
    op.add_column("datasets", sa.Column("used", sa.BigInteger(), server_default="0", nullable=False))
    op.create_index("datasets_by_used", "datasets", ["used", "number"], unique=False)
    op.create_table(
        "taken",
        sa.Column("search", sa.String(length=40), nullable=False),
        sa.Column("dataset", sa.String(length=40), nullable=False),
        sa.PrimaryKeyConstraint("search", "dataset", name=op.f("pk_taken")),
    )
    op.create_index(op.f("ix_taken_dataset"), "taken", ["dataset"], unique=False)
    _begin_with_what_is_known()
    op.drop_table("uses")


def _begin_with_what_is_known() -> None:
    """Searches of the last days: older ones are not written down anywhere."""
    connection = op.get_bind()
    found: dict[str, str | None] = {}
    pairs = set()
    for search, digest in connection.execute(sa.select(uses)).all():
        if digest not in found:
            held = sa.select(datasets.c.id).join(versions, versions.c.dataset == datasets.c.number)
            held = held.where(versions.c.digest == digest)
            first = held.order_by(datasets.c.copy_of.is_not(None), datasets.c.number).limit(1)
            found[digest] = connection.execute(first).scalar()
        if (id := found[digest]) is not None:
            pairs.add((search, id))
    for search, id in sorted(pairs):
        connection.execute(sa.insert(taken).values(search=search, dataset=id))
        connection.execute(sa.update(datasets).where(datasets.c.id == id).values(used=datasets.c.used + 1))
