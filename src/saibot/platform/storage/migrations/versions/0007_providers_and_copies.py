"""Who stands behind a dataset: verified providers, their keys, payloads that copies share, and what was withdrawn.

Payloads of what was stored before are filled in from the sketches while the platform runs: here there are no files.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql, sqlite

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

PLAIN = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
NUMBER = sa.BigInteger().with_variant(sqlite.INTEGER(), "sqlite")
BATCH = 500
ADDED: dict[str, object] = {"verified": False, "signer": None, "copy_of": None, "flags": []}
datasets = sa.table("datasets", sa.column("number", sa.BigInteger), sa.column("document", sa.Text))


def upgrade() -> None:
    op.create_table(
        "providers",
        sa.Column("account", PLAIN, nullable=False),
        sa.Column("since", sa.Text(), nullable=True),
        sa.Column("verified", sa.Text(), nullable=True),
        sa.Column("verified_by", PLAIN, nullable=True),
        sa.Column("challenge", sa.String(length=64), nullable=True),
        sa.Column("challenged", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("account", name=op.f("pk_providers")),
    )
    op.create_table(
        "provider_keys",
        sa.Column("account", PLAIN, nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("since", sa.Text(), nullable=False),
        sa.Column("until", sa.Text(), nullable=True),
        sa.Column("next", sa.String(length=64), nullable=True),
        sa.Column("proof", sa.String(length=128), nullable=True),
        sa.PrimaryKeyConstraint("account", "key", name=op.f("pk_provider_keys")),
    )
    op.create_table(
        "withdrawn",
        sa.Column("payload", sa.String(length=64), nullable=False),
        sa.Column("account", PLAIN, nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("payload", name=op.f("pk_withdrawn")),
    )
    op.add_column("versions", sa.Column("payload", sa.String(length=64), nullable=True))
    op.add_column("versions", sa.Column("signer", sa.String(length=64), nullable=True))
    op.create_index(op.f("ix_versions_payload"), "versions", ["payload"], unique=False)
    op.add_column("datasets", sa.Column("copy_of", NUMBER, nullable=True))
    op.create_index(op.f("ix_datasets_copy_of"), "datasets", ["copy_of"], unique=False)
    counted = ["state", "provider", "domains", "visibility", "expires"]
    op.drop_index("datasets_counted", table_name="datasets")
    op.create_index("datasets_counted", "datasets", [*counted, "copy_of"], unique=False)
    op.execute("INSERT INTO providers (account, since) SELECT account, min(published) FROM versions GROUP BY account")
    _say_more()


def _say_more() -> None:
    connection = op.get_bind()
    last = -1
    while rows := connection.execute(
        sa.select(datasets).where(datasets.c.number > last).order_by(datasets.c.number).limit(BATCH)
    ).all():
        for number, text in rows:
            told = json.dumps(json.loads(text) | ADDED, ensure_ascii=False)
            connection.execute(sa.update(datasets).where(datasets.c.number == number).values(document=told))
            last = number
