"""Bindings that are being written while they are read: half a record is no damage, and no record."""

from __future__ import annotations

import os

from journalfs.live.bindings import BindingsReader, read_bindings
from journalfs.store.write.opening import open_for_writing
from tests.store.writing.conftest import Writable


def test_nothing_is_being_written_while_a_store_is_opened(writable: Writable) -> None:
    """The earlier counters of ids are deleted then, and the bindings are read."""
    for _ in range(2):
        store = open_for_writing(writable.root, clock=writable.clock, index=False)
        try:
            assert store.journals.bindings.committer.idle
            assert store.journals.bindings.durable_end() is not None
        finally:
            store.close()


async def test_bindings_are_read_as_far_as_they_are_durable(writable: Writable) -> None:
    async with writable.open() as store:
        await store.create_address("whole")
        current = store.journals.bindings.current
        file_id, end = limit = current.file_id, current.records_end
        (path,) = (
            file
            for file in (writable.root / "bindings").glob("*.bindings")
            if int.from_bytes(file.read_bytes()[8:16]) == file_id
        )
        descriptor = os.open(path, os.O_WRONLY)
        # The kind and the file's id, as the beginning of a record of which the rest is still to come.
        os.pwrite(descriptor, b"\x10" + file_id.to_bytes(4), end)
        os.close(descriptor)
        folder = writable.root / "bindings"
        state, damage = read_bindings(folder, relative_to=writable.root)
        assert [one.offset for one in damage] == [end]
        state, damage = BindingsReader(folder, relative_to=writable.root).read(limit)
        assert damage == ()
        assert "whole" in state.addresses
        await store.let_bindings_go()
        assert not store.core.damage()
        await store.create_address("next")
    assert not read_bindings(folder, relative_to=writable.root)[1]
