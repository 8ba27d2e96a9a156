"""The first tables: tokens, key domains, datasets with their versions and search terms, searches, and the trail."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql, sqlite

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

PLAIN = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
NUMBER = sa.BigInteger().with_variant(sqlite.INTEGER(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "datasets",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("provider", PLAIN, nullable=False),
        sa.Column("name", PLAIN, nullable=False),
        sa.Column("key_name", PLAIN, nullable=False),
        sa.Column("visibility", sa.String(length=20), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("published", PLAIN, nullable=False),
        sa.Column("expires", PLAIN, nullable=True),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("epsilon", sa.Float(), nullable=False),
        sa.Column("sort_name", PLAIN, nullable=False),
        sa.Column("domains", PLAIN, nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_datasets")),
        sa.UniqueConstraint("id"),
    )
    op.create_index("datasets_by_epsilon", "datasets", ["epsilon", "number"], unique=False)
    op.create_index("datasets_by_expiry", "datasets", ["expires"], unique=False)
    op.create_index("datasets_by_name", "datasets", ["sort_name", "number"], unique=False)
    op.create_index("datasets_by_published", "datasets", ["published", "number"], unique=False)
    op.create_index("datasets_by_rows", "datasets", ["rows", "number"], unique=False)
    op.create_index("datasets_counted", "datasets", ["state", "provider", "domains", "visibility", "expires"], unique=False)
    op.create_index("one_dataset_per_identity", "datasets", ["provider", "name", "key_name"], unique=True)
    op.create_table(
        "domains",
        sa.Column("id", PLAIN, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("keys_digest", sa.String(length=64), nullable=False),
        sa.Column("levels", sa.Text(), nullable=False),
        sa.Column("account", PLAIN, nullable=False),
        sa.Column("registered", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", "version", name=op.f("pk_domains")),
    )
    op.create_index(op.f("ix_domains_digest"), "domains", ["digest"], unique=False)
    op.create_index(op.f("ix_domains_keys_digest"), "domains", ["keys_digest"], unique=False)
    op.create_table(
        "searches",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("account", PLAIN, nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("part", sa.Float(), nullable=True),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created", PLAIN, nullable=False),
        sa.Column("started", sa.Text(), nullable=True),
        sa.Column("finished", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_searches")),
        sa.UniqueConstraint("id"),
    )
    op.create_index(op.f("ix_searches_created"), "searches", ["created"], unique=False)
    op.create_index(op.f("ix_searches_status"), "searches", ["status"], unique=False)
    op.create_index("searches_of_account", "searches", ["account", "number"], unique=False)
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", PLAIN, nullable=False),
        sa.Column("roles", sa.Text(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("created", sa.Text(), nullable=False),
        sa.Column("expires", sa.Text(), nullable=True),
        sa.Column("revoked", sa.Text(), nullable=True),
        sa.Column("last_used", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash"),
    )
    op.create_table(
        "trail",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("account", PLAIN, nullable=False),
        sa.Column("action", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_trail")),
    )
    op.create_table(
        "terms",
        sa.Column("term", PLAIN, nullable=False),
        sa.Column("dataset", NUMBER, nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset"],
            ["datasets.number"],
        ),
        sa.PrimaryKeyConstraint("term", "dataset", name=op.f("pk_terms")),
        sqlite_with_rowid=False,
    )
    op.create_index("terms_of_dataset", "terms", ["dataset", "term"], unique=False)
    op.create_table(
        "versions",
        sa.Column("dataset", NUMBER, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("published", sa.Text(), nullable=False),
        sa.Column("account", PLAIN, nullable=False),
        sa.Column("packed", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset"],
            ["datasets.number"],
        ),
        sa.PrimaryKeyConstraint("dataset", "version", name=op.f("pk_versions")),
    )
    op.create_index(op.f("ix_versions_account"), "versions", ["account"], unique=False)
    op.create_index(op.f("ix_versions_digest"), "versions", ["digest"], unique=False)
    op.create_index("versions_to_pack", "versions", ["packed", "dataset"], unique=False)
