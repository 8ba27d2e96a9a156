"""The steps that lead from one set of tables to the next; alembic walks them."""
