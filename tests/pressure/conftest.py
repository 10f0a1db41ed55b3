"""The preloaded library, a store for lives, and the process that lives them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from journalfs.clock import SystemClock
from journalfs.store.creating import create_store
from journalfs.store.write.opening import open_for_writing
from tests.pressure.lives import PAGES, Case, Life

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="session")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that fails calls."""
    library = tmp_path_factory.mktemp("failing") / "failing.so"
    flags = ("-shared", "-fPIC", "-O1", "-w")
    subprocess.run(["cc", *flags, "-o", library, HERE / "failing.c", "-ldl"], check=True)
    return library


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Queues `work.a` and `work.b` of `work`, and `paged` of `paged`."""
    root = tmp_path_factory.mktemp("empty") / "data"
    create_store(root, {"journal-type": "NIO", "journal-file-size": 65536}, SystemClock(), warn=pytest.fail)

    async def make() -> None:
        store = open_for_writing(root)
        for address, queue in (("work", "work.a"), ("work", "work.b"), PAGES):
            if store.address(address) is None:
                await store.create_address(address)
            await store.create_queue(address, queue)
        store.close()

    trio.run(make)
    return root


class Lives:
    """A process that lives one case after the other."""

    def __init__(self, failing: Path, store: Path, folder: Path, *, python_too: bool) -> None:
        environment = {**os.environ, "LD_PRELOAD": str(failing), "PYTHONDONTWRITEBYTECODE": "1"}
        if python_too:
            environment["PYTHONMALLOC"] = "malloc"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.pressure.lives", str(store), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            cwd=ROOT,
        )

    def live(self, case: Case) -> Life:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(case.line())
        self._process.stdin.flush()
        return Life(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


@pytest.fixture(scope="session")
def lives(failing: Path, empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    process = Lives(failing, empty_store, tmp_path_factory.mktemp("lives"), python_too=False)
    yield process
    process.close()


@pytest.fixture(scope="session")
def lives_in_python(
    failing: Path, empty_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lives]:
    """Python's own objects need memory, too."""
    process = Lives(failing, empty_store, tmp_path_factory.mktemp("lives"), python_too=True)
    yield process
    process.close()
