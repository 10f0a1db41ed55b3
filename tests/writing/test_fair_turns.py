"""What one asks for holds nobody else up: who reads another queue is answered meanwhile."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.writing.conftest import Address, errno_of

WAIT_S_MAX = 0.25
"""A few times what is promised: the machine has other work, and each probe is a handful of requests."""

PROBE = """
import os, sys, time
worst = 0.0
print("ready", flush=True)
while not os.path.exists(sys.argv[2]):
    begun = time.perf_counter()
    os.stat(sys.argv[1])
    worst = max(worst, time.perf_counter() - begun)
    time.sleep(0.001)
print(worst)
"""


@contextmanager
def others_served(path: Path, ended: Path, limit_s: float = WAIT_S_MAX) -> Iterator[None]:
    """Somebody looks at `path` all the time, and never waits long."""
    command = [sys.executable, "-c", PROBE, str(path), str(ended)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as probe:
        assert probe.stdout is not None
        try:
            assert probe.stdout.readline() == "ready\n"
            yield
        finally:
            ended.touch()
        worst_s = float(probe.stdout.read())
    assert worst_s < limit_s


@pytest.mark.rule("S-155")
@pytest.mark.parametrize(
    ("name", "one"), [("in.json", b"1 "), ("in.txt", b"1\n"), ("in.jsonl", b'{"body":"1"}\n')]
)
def test_a_write_of_many_messages_holds_nobody_up(
    address: Address, tmp_path: Path, name: str, one: bytes
) -> None:
    count = 40_000
    with others_served(address.second.path / ".status", tmp_path / "ended"):
        descriptor = os.open(address.first.path / name, os.O_WRONLY | os.O_CREAT)
        begun = time.perf_counter()
        assert os.write(descriptor, count * one) == count * len(one)
        took_s = time.perf_counter() - begun
        os.close(descriptor)
    assert address.first.status()["messages"] == count
    assert took_s < 10


@pytest.mark.rule("S-155")
@pytest.mark.parametrize(
    ("name", "one", "bad"),
    [("in.json", b"1 ", b"no"), ("in.jsonl", b'{"body":"1"}\n', b"{]\n"), ("in.json", b"1 ", b'"\xff" ')],
)
def test_of_many_messages_with_a_bad_one_none_is_published(
    address: Address, name: str, one: bytes, bad: bytes
) -> None:
    descriptor = os.open(address.first.path / name, os.O_WRONLY | os.O_CREAT)
    assert errno_of(os.write, descriptor, 30_000 * one + bad) == errno.EINVAL
    os.close(descriptor)
    assert address.first.status()["messages"] == 0
