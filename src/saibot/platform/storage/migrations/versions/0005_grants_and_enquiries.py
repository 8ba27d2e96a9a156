"""Accounts that a dataset is granted to, and enquiries of requesters to providers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql, sqlite

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

PLAIN = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
NUMBER = sa.BigInteger().with_variant(sqlite.INTEGER(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "grants",
        sa.Column("dataset", NUMBER, nullable=False),
        sa.Column("account", PLAIN, nullable=False),
        sa.Column("since", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["dataset"], ["datasets.number"]),
        sa.PrimaryKeyConstraint("dataset", "account", name=op.f("pk_grants")),
    )
    op.create_index(op.f("ix_grants_account"), "grants", ["account"], unique=False)
    op.create_table(
        "enquiries",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("account", PLAIN, nullable=False),
        sa.Column("provider", PLAIN, nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_enquiries")),
        sa.UniqueConstraint("id"),
    )
    op.create_index("enquiries_of_account", "enquiries", ["account", "status", "number"], unique=False)
    op.create_index("enquiries_to_provider", "enquiries", ["provider", "status", "number"], unique=False)
