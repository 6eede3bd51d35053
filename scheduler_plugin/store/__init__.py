"""The `freshet` schema in Postgres: the ledger of what arrived, what was decided, what ran and how fresh things were.

`models.py` says what a row is, `migrations/` how the schema came about, the other modules what can be done. Nothing
outside this folder speaks SQL to the schema.
"""
