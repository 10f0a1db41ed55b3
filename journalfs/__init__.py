"""journalfs: a broker's message store as a filesystem, and in Python (docs/use/python.md).

    import journalfs

    with journalfs.open("/var/lib/artemis/data") as store:
        for message in store["orders::billing"].where("total > 100"):
            print(message.id, message.body)

Nothing is imported before it is asked for: commands start with this module.
"""

# What type checkers read of this is in __init__.pyi: an import here, be it for types alone, would be one of
# every module of the package, and import-linter could tell no layers apart.
TYPE_CHECKING = False  # importing typing for its own constant takes longer than most of a start
if TYPE_CHECKING:
    from typing import Any

_PLACES = {
    "open": ("journalfs.python.store", "open_store"),
    "Store": ("journalfs.python.store", "Store"),
    "Queue": ("journalfs.python.store", "Queue"),
    "Message": ("journalfs.python.message", "Message"),
    "AsyncStore": ("journalfs.python.asynchronous", "AsyncStore"),
    "AsyncQueue": ("journalfs.python.asynchronous", "AsyncQueue"),
    "Table": ("journalfs.python.arrow", "Table"),
    "JournalfsError": ("journalfs.errors", "JournalfsError"),
    "NoMessage": ("journalfs.errors", "NoMessage"),
    "NoSuchName": ("journalfs.errors", "NoSuchName"),
    "ReadOnlyStore": ("journalfs.errors", "ReadOnlyStore"),
    "StoreBusy": ("journalfs.errors", "StoreBusy"),
}
"""Where each public name is: module and attribute. All other errors are in `journalfs.errors`."""

__all__ = [
    "AsyncQueue", "AsyncStore", "JournalfsError", "Message", "NoMessage", "NoSuchName", "Queue",
    "ReadOnlyStore", "Store", "StoreBusy", "Table", "__version__", "open",
]  # fmt: skip


def __getattr__(name: str) -> "Any":
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - takes long

        found: Any = version("journalfs")
    elif name in _PLACES:
        from importlib import import_module  # noqa: PLC0415 - for who asks

        module, attribute = _PLACES[name]
        found = getattr(import_module(module), attribute)
    else:
        raise AttributeError(f"module 'journalfs' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> "list[str]":
    return sorted({*globals(), *__all__})
