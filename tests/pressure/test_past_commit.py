"""Errors between the record by which a change counts and its answer: whoever repeats it does it once."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from journalfs.errors import ReadOnlyStore, SystemFailure
from journalfs.live.waking import Waking
from journalfs.records.files.loader import JournalLoader
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from tests.pressure.lives import A, B, User
from tests.store.publishing import publish_file


@pytest.fixture
def root(empty_store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(empty_store, tmp_path / "data"))


@asynccontextmanager
async def running(root: Path) -> AsyncIterator[WritingStore]:
    store = open_for_writing(root)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.journals.run)
        yield store
        nursery.cancel_scope.cancel()
    store.close()


def shown(store: WritingStore) -> dict[str, list[str]]:
    return User(store, lambda _: None).shown()


def failing_once(
    monkeypatch: pytest.MonkeyPatch, of: type, name: str, error: Exception
) -> Callable[[], bool]:
    """Have the next call of a method fail; whether it did."""
    whole, left = getattr(of, name), [error]

    def fails(*args: object, **named: object) -> object:
        if left:
            raise left.pop()
        return whole(*args, **named)

    monkeypatch.setattr(of, name, fails)
    return lambda: not left


def look_fails(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    return failing_once(monkeypatch, JournalLoader, "advance", OSError(errno.EIO, os.strerror(errno.EIO)))


@pytest.mark.rule("S-410")
@pytest.mark.parametrize("lines", [1, 3], ids=["alone", "transaction"])
async def test_what_counts_is_not_published_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    """Memory runs out behind the COMMIT: the publisher is told so, and a second try is refused."""
    content = b"".join(b"line %d\n" % number for number in range(lines))
    async with running(root) as store:
        failed = failing_once(monkeypatch, type(store.sending), "_counted", MemoryError())
        with pytest.raises(MemoryError):
            await publish_file(store, *A, "in.txt", content)
        assert failed()
        with pytest.raises(ReadOnlyStore):
            await publish_file(store, *A, "in.txt", content)
    async with running(root) as store:
        found = shown(store)["work.a"]
        assert found in ([], content.decode().splitlines())


@pytest.mark.rule("S-410")
async def test_what_is_durable_is_answered_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it cannot be shown at the moment is for who looks, not for who published it."""
    async with running(root) as store:
        failed = failing_once(monkeypatch, Waking, "left", OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
        user = User(store, lambda _: None)
        await publish_file(store, *A, "in.txt", b"one\n")
        moved = await store.move(A, list(user.messages(A).values()), B)
        assert failed()
        assert moved == 1
        assert shown(store) == {"paged": [], "work.a": [], "work.b": ["one"]}


@pytest.mark.rule("S-411")
async def test_who_looks_while_a_look_fails_gets_no_old_view(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without what came since, or with what went: it would be delivered again."""
    async with running(root) as store:
        await publish_file(store, *A, "in.txt", b"one\n")
        failed = look_fails(monkeypatch)
        with pytest.raises(SystemFailure) as refused:
            shown(store)
        assert refused.value.system_errno == errno.EIO
        assert failed()
        assert shown(store)["work.a"] == ["one"]


@pytest.mark.rule("S-411")
async def test_a_reader_is_not_told_that_there_is_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(root) as store:
        consumer = store.consumer(A)
        assert consumer.take() is None
        await publish_file(store, *A, "in.txt", b"one\n")
        look_fails(monkeypatch)
        with pytest.raises(SystemFailure):
            consumer.take()
        delivery = consumer.take()
        assert delivery is not None
        await delivery.give_back(failed=False)
        await consumer.close()


@pytest.mark.rule("S-411")
async def test_what_was_acknowledged_does_not_come_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look that fails is the one with which the acknowledgement clears up."""
    async with running(root) as store:
        await publish_file(store, *A, "in.txt", b"one\ntwo\n")
        first = next(iter(User(store, lambda _: None).messages(A).values()))
        failed = look_fails(monkeypatch)
        assert await store.acknowledge(A, [first]) == 1
        assert failed()
        assert shown(store)["work.a"] == ["two"]
