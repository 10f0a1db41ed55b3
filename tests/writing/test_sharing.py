"""Many writers at once: each is told when its line is durable, and they share what that costs."""

from __future__ import annotations

import json
import os
import threading

import pytest

from journalfs_mount.limits import WORKERS_MAX
from tests.mounting import COMMAND_S_MAX
from tests.writing.conftest import Address, bodies


def write_lines(address: Address, writer: int, count: int, begin: threading.Barrier) -> None:
    descriptor = os.open(address.first.path / "in.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        begin.wait(COMMAND_S_MAX)
        for number in range(count):
            line = b"%d-%d\n" % (writer, number)
            assert os.write(descriptor, line) == len(line)
    finally:
        os.close(descriptor)


def flushes(address: Address) -> int:
    status = json.loads((address.mount.path / ".journalfs/status.json").read_text())
    return int(status["flushes"])


@pytest.mark.rule("S-70")
@pytest.mark.parametrize("writers", [16, WORKERS_MAX + 16])
def test_writers_share_flushes_and_all_get_their_answers(address: Address, writers: int) -> None:
    """Also more of them than requests that are served at once: nobody is left to find out that no more
    come.
    """
    count, begin = 20, threading.Barrier(writers)
    before = flushes(address)
    threads = [
        threading.Thread(target=write_lines, args=(address, writer, count, begin))
        for writer in range(writers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(COMMAND_S_MAX)
    assert not any(thread.is_alive() for thread in threads)
    assert flushes(address) - before < writers * count
    found = bodies(address.first)
    assert sorted(found) == sorted(
        f"{writer}-{number}" for writer in range(writers) for number in range(count)
    )
    for writer in range(writers):
        own = [body for body in found if body.startswith(f"{writer}-")]
        assert own == [f"{writer}-{number}" for number in range(count)]
