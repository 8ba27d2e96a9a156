"""Sums in the trail, tokens that accounts make for themselves, and datasets that are found by what is said of them.

What comes often is one row an hour in the trail. Documents of datasets have tags; tags and words of licences are terms.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

from saibot.platform.describe import terms_of_said
from saibot.wire import About

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

BATCH = 500
datasets = sa.table(
    "datasets",
    *(sa.column("number", sa.BigInteger), sa.column("provider", sa.Text), sa.column("name", sa.Text)),
    sa.column("document", sa.Text),
)
about = sa.table("about", sa.column("provider", sa.Text), sa.column("name", sa.Text), sa.column("said", sa.Text))
terms = sa.table("terms", sa.column("term", sa.Text), sa.column("dataset", sa.BigInteger))


def upgrade() -> None:
    op.add_column("trail", sa.Column("hour", sa.String(length=13), nullable=True))
    op.add_column("trail", sa.Column("times", sa.BigInteger(), server_default="1", nullable=False))
    op.create_index("one_sum_an_hour", "trail", ["hour", "action", "account", "subject"], unique=True)
    op.create_index("trail_by_action", "trail", ["action", "number"], unique=False)
    op.create_index("trail_by_account", "trail", ["account", "number"], unique=False)
    op.add_column("tokens", sa.Column("parent", sa.String(length=40), nullable=True))
    op.create_index(op.f("ix_tokens_parent"), "tokens", ["parent"], unique=False)
    _say_more()


def _say_more() -> None:
    connection = op.get_bind()
    said = {(row.provider, row.name): About.model_validate_json(row.said) for row in connection.execute(sa.select(about))}
    last = -1
    while rows := connection.execute(
        sa.select(datasets).where(datasets.c.number > last).order_by(datasets.c.number).limit(BATCH)
    ).all():
        for number, provider, name, text in rows:
            beside = said.get((provider, name), About())
            told = json.dumps(json.loads(text) | {"tags": list(beside.tags)}, ensure_ascii=False)
            connection.execute(sa.update(datasets).where(datasets.c.number == number).values(document=told))
            there = set(connection.execute(sa.select(terms.c.term).where(terms.c.dataset == number)).scalars())
            if new := sorted(terms_of_said(beside) - there):
                connection.execute(sa.insert(terms), [{"term": term, "dataset": number} for term in new])
            last = number
