"""Datasets may be open: they say their source, whether an admin has confirmed it, and whether they teach shared factors.

Whatever was stored before is private, and teaches.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

BATCH = 500
datasets = sa.table("datasets", sa.column("number", sa.BigInteger), sa.column("document", sa.Text))


def upgrade() -> None:
    op.add_column("datasets", sa.Column("teaches", sa.Boolean(), nullable=False, server_default=sa.true()))
    connection = op.get_bind()
    last = -1
    while rows := connection.execute(
        sa.select(datasets).where(datasets.c.number > last).order_by(datasets.c.number).limit(BATCH)
    ).all():
        for number, text in rows:
            told = json.dumps(json.loads(text) | {"source": None, "confirmed": False}, ensure_ascii=False)
            connection.execute(sa.update(datasets).where(datasets.c.number == number).values(document=told))
            last = number
