"""Stores of older brokers, read as stores of today's format.

A foreign store is transcoded once into a *derived store*: a data directory of the current format that lies in
the cache directory (or in a directory that was named), is disposable, and is made anew when the source
changed. Everything above reads that and knows nothing of it. The source is opened for reading only.

How it fits together:

* `journalfs.config.older` recognises a foreign store by names and a few bytes and raises `OlderStore` from
  `locate_store`: `kind` (one of `KINDS`), `root`, `journal_dir`, `bindings_dir`. Writers let it through.
* `journalfs.records.sources.locate_readable(path, kind=..., derived=...)` finds what can be opened for
  reading: `path`, or the derived store of what lies there, made first if need be. Whoever opens for reading
  calls it.
* An **adapter** is a function `fill(source: Source, out: DerivedStore) -> None`, listed by
  kind in `journalfs.records.older.deriving`. It walks the source and calls, on `out`
  (`journalfs.records.older.derived`):

  - `out.address(name, *routing_types)`, `out.queue(name, address, routing_type, filter=...) -> QueueId`
  - `out.message(message_id, address, header, body, queues, tx=...)`: a message, its references after it;
    `header` is a `format.core_message.CoreHeader`, `body` is encoded as a core message has it
    (a text is `\\1` + SimpleString, `\\0` for a null one; bytes raw; maps by
    `format.properties.encode_properties`; streams by `encode_stream_value`; objects i32 length + bytes).
    Order of the calls is order of arrival. What is over `out.RECORD_BYTES_MAX` becomes a large message
    by itself; `out.large_message(message_id, address, header, queues, tx=...)` gives a file to stream one to.
  - `out.delivery_count(message_id, queue, count)`, `out.schedule(message_id, queue, time_ms)`,
    `out.duplicate_id(address, id_bytes)`, `out.acknowledge(message_id, queue, tx=...)`
  - transactions: give `tx=out.in_doubt(xid)`; or `tx=out.next_id()`, then `out.commit(tx)` or
    `out.rollback(tx)`
  - `out.record(kind, record_id, user_type, body, tx=...)` for any other record of the message journal
  - `out.damage(file, offset, length_bytes, kind, reason)`: what could not be read, by the *source's* file;
    it shows in `.journalfs/damaged`, `check` and `status`, and in the report of `convert`
  - `out.note(kind, text)`: what has no equal in the current format, for the report of `convert`
  - `out.jms(name, facts)`: shown as `.journalfs/jms/NAME.json`
  - `out.progress(bytes_read)`: of the source, for the progress bar
  - `out.bodies_in(directory)`: where the files `<message id>.msg` of large messages lie already

  An adapter raises nothing for damage. `source.files()` gives all files below the source that say whether it
  is still what it was.
"""

from journalfs.records.older.deriving import Source, derive, source_of

__all__ = ["Source", "derive", "source_of"]
