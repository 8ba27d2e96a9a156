"""Versions say which account their sketch names and what that has spent; datasets say by which keys they are published.

Sketches that were stored before are of format version 1, which names no account.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

BATCH = 500
datasets = sa.table("datasets", sa.column("number", sa.BigInteger), sa.column("document", sa.Text))


def upgrade() -> None:
    op.add_column("versions", sa.Column("holder", sa.String(length=64), nullable=True))
    op.add_column("versions", sa.Column("spent_epsilon", sa.Text(), nullable=True))
    op.add_column("versions", sa.Column("spent_delta", sa.Text(), nullable=True))
    op.create_index(op.f("ix_versions_holder"), "versions", ["holder"], unique=False)
    connection = op.get_bind()
    last = -1
    while rows := connection.execute(
        sa.select(datasets).where(datasets.c.number > last).order_by(datasets.c.number).limit(BATCH)
    ).all():
        for number, text in rows:
            document = json.loads(text)
            keys = [document["key"]] if document["key"] else []
            told = json.dumps(document | {"keys": keys, "account": None, "spent": None, "open": False}, ensure_ascii=False)
            connection.execute(sa.update(datasets).where(datasets.c.number == number).values(document=told))
            last = number
