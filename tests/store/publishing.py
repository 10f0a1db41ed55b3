"""Publishing as a mount does when a file is written and closed."""

from __future__ import annotations

from journalfs.store.write.store import WritingStore


async def publish_file(
    store: WritingStore, address: str, queue: str | None, file_name: str, content: bytes
) -> None:
    """Write a file at once, and close it."""
    publisher = store.publisher(address, queue, file_name)
    await publisher.write(content)
    await publisher.finish()
