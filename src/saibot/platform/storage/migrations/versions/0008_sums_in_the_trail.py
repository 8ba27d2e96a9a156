"""Sums in the trail: what comes often is counted by the hour. Tokens that accounts make for themselves."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("trail", sa.Column("hour", sa.String(length=13), nullable=True))
    op.add_column("trail", sa.Column("times", sa.BigInteger(), server_default="1", nullable=False))
    op.create_index("one_sum_an_hour", "trail", ["hour", "action", "account", "subject"], unique=True)
    op.create_index("trail_by_action", "trail", ["action", "number"], unique=False)
    op.create_index("trail_by_account", "trail", ["account", "number"], unique=False)
    op.add_column("tokens", sa.Column("parent", sa.String(length=40), nullable=True))
    op.create_index(op.f("ix_tokens_parent"), "tokens", ["parent"], unique=False)
