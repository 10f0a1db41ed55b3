"""The public names, for type checkers; `__init__.py` imports each when it is asked for."""

from journalfs.errors import JournalfsError as JournalfsError
from journalfs.errors import NoMessage as NoMessage
from journalfs.errors import NoSuchName as NoSuchName
from journalfs.errors import ReadOnlyStore as ReadOnlyStore
from journalfs.errors import StoreBusy as StoreBusy
from journalfs.python.arrow import Table as Table
from journalfs.python.asynchronous import AsyncQueue as AsyncQueue
from journalfs.python.asynchronous import AsyncStore as AsyncStore
from journalfs.python.message import Message as Message
from journalfs.python.store import Queue as Queue
from journalfs.python.store import Store as Store
from journalfs.python.store import open_store as open

__version__: str
__all__ = [
    "AsyncQueue", "AsyncStore", "JournalfsError", "Message", "NoMessage", "NoSuchName", "Queue",
    "ReadOnlyStore", "Store", "StoreBusy", "Table", "__version__", "open",
]  # fmt: skip
