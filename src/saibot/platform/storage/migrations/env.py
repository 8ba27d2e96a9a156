"""What alembic runs: the steps in the transaction that `saibot.platform.storage.migrate` has opened."""

from __future__ import annotations

from alembic import context

from saibot.platform.storage.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
