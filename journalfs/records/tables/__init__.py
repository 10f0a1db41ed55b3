"""Stores in a database, in the tables of the broker's JDBC store.

The rows' payloads are the records of the journals, so whoever reads such a store reads a *derived store*
(`journalfs.records.older`): rows become records of the current format, in their order. The database is the
truth, what is derived is disposable.

`schema` says the tables, `database` connects, `reading` and `deriving` derive. To write, `owning` takes the
lease and a derived store to work on, and `log` commits each flush of its journals.
"""
