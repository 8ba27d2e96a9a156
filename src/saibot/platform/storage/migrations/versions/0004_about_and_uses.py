"""What providers say of their tables beside the sketches, and which sketches a search has taken."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

PLAIN = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "about",
        sa.Column("provider", PLAIN, nullable=False),
        sa.Column("name", PLAIN, nullable=False),
        sa.Column("said", sa.Text(), nullable=False),
        sa.Column("changed", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("provider", "name", name=op.f("pk_about")),
    )
    op.create_table(
        "uses",
        sa.Column("search", sa.String(length=40), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("search", "digest", name=op.f("pk_uses")),
    )
    op.create_index(op.f("ix_uses_digest"), "uses", ["digest"], unique=False)
