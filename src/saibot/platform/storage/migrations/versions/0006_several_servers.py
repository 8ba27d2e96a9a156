"""What several servers on one database share: the queue of searches, sessions, who is there, and the shards in use.

Key domains that were removed are remembered, so that nobody else registers other keys under their names; and datasets that
have expired say when that was noticed, for they are kept for a while.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

PLAIN = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("searches", sa.Column("server", sa.String(length=40), nullable=True))
    op.add_column("searches", sa.Column("until", sa.Float(), nullable=True))
    op.add_column("searches", sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("searches", sa.Column("stop", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("datasets", sa.Column("ended", sa.Text(), nullable=True))
    op.create_table(
        "removed_domains",
        sa.Column("id", PLAIN, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("account", PLAIN, nullable=False),
        sa.Column("removed", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", "version", name=op.f("pk_removed_domains")),
    )
    op.create_table(
        "served",
        sa.Column("account", PLAIN, nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("account", name=op.f("pk_served")),
    )
    op.create_table(
        "sessions",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("account", PLAIN, nullable=False),
        sa.Column("opened", PLAIN, nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_account"), "sessions", ["account"], unique=False)
    op.create_table(
        "servers",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("seen", sa.Float(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_servers")),
    )
    op.create_table(
        "shared_shards",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("index", sa.String(length=64), nullable=False),
        sa.Column("files", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shared_shards")),
    )
