"""A store whose settings say that nobody waits for the disk: only single writes do not."""

from __future__ import annotations

import pytest

from journalfs.errors import JournalfsError
from tests.store.writing.conftest import Writable, bodies_of, ids_of

A, B = ("work", "work.a"), ("work", "work.b")


@pytest.fixture
def unsynced(writable: Writable) -> Writable:
    settings = "journal-sync-transactional = false\njournal-sync-non-transactional = false\n"
    (writable.root / "journalfs.toml").write_text(f'journal-type = "{writable.backend}"\n{settings}')
    return writable


async def test_a_write_returns_before_it_is_written(unsynced: Writable) -> None:
    async with unsynced.open() as store:
        committer, publisher = store.journals.messages.committer, store.publisher(*A, "in")
        for lines in (b"one\n", b"two\nthree\n"):
            flushes = committer.counts.flushes
            await publisher.write(lines)
            assert committer.counts.flushes == flushes
            await publisher.flush()
            assert committer.reached_position == store.journals.messages.position
        assert bodies_of(store, A[1]) == ["one", "two", "three"]


@pytest.mark.rule("S-83", "S-84")
@pytest.mark.parametrize("together", [1, 3])
async def test_what_left_is_not_taken_again(unsynced: Writable, together: int) -> None:
    """Neither is what was removed moved after that, nor what was moved moved elsewhere."""
    async with unsynced.open() as store:
        publisher = store.publisher(*A, "in")
        await publisher.write(b"".join(b"%d\n" % n for n in range(10)))
        await publisher.finish()
        kept = ids_of(store, A[1])
        removed, moved = kept[:together], kept[4 : 4 + together]
        assert await store.acknowledge(A, removed) == together
        assert await store.move(A, moved, B) == together
        assert await store.acknowledge(A, kept) == 10 - 2 * together
        assert ids_of(store, A[1]) == []
        assert ids_of(store, B[1]) == moved
    async with unsynced.open() as store:
        assert (ids_of(store, A[1]), ids_of(store, B[1])) == ([], moved)


@pytest.mark.rule("S-85")
async def test_a_queue_that_was_just_written_to_is_not_deleted(unsynced: Writable) -> None:
    async with unsynced.open() as store:
        publisher = store.publisher(*A, "in")
        await publisher.write(b"one\n")
        with pytest.raises(JournalfsError, match="messages"):
            await store.delete_queue(*A)
        assert bodies_of(store, A[1]) == ["one"]
