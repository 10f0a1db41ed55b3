"""The store as a library: `open_store` gives addresses, queues and messages; the protocols are in `api`."""

from journalfs.store.reading import open_store

__all__ = ["open_store"]
