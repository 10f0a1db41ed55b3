"""Stores on filesystems that share no mappings (9p, virtiofs): their bytes are read instead."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.cli.running import journalfs
from tests.frozen import PristineStores
from tests.store.conftest import QUEUE_A, LittleStore

SOURCE = Path(__file__).with_name("unshared.c")


@pytest.fixture(scope="module")
def unshared(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of a process to which the kernel shares no mapping of a file."""
    library = tmp_path_factory.mktemp("unshared") / "unshared.so"
    build = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(build, check=True)
    return {**os.environ, "LD_PRELOAD": str(library)}


def run(environment: Mapping[str, str], *words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("journalfs")), *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_such_a_process_gets_no_shared_mapping(unshared: Mapping[str, str], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 4096)
    code = f"import mmap, os; mmap.mmap(os.open({str(file)!r}, os.O_RDWR), 0)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=unshared, capture_output=True, text=True, check=False
    )
    assert "No such device" in done.stderr


@pytest.mark.rule("S-303")
@pytest.mark.parametrize("name", ["large-and-paged", pytest.param("transactions", marks=pytest.mark.long)])
def test_everything_in_it_is_shown(name: str, stores: PristineStores, unshared: Mapping[str, str]) -> None:
    for words in (["ls", "--no-index"], ["cat", "--no-index"], ["check", "--deep"]):
        there = journalfs(*words, stores[name])
        done = run(unshared, *words, stores[name])
        assert (done.returncode, done.stdout) == (there.returncode, there.stdout), done.stderr


FOLLOW = """
import sys, trio
from pathlib import Path
from journalfs.store import open_store
store = open_store(Path(sys.argv[1]), index=False)
count = lambda: sum(len(queue) for queue in store.queues())
print(count(), flush=True)
sys.stdin.readline()
trio.run(store.look)
print(count(), flush=True)
store.close()
"""


@pytest.mark.rule("S-303")
def test_what_is_appended_is_followed(little_store: LittleStore, unshared: Mapping[str, str]) -> None:
    little_store.journal.send(1000, QUEUE_A)
    command = [sys.executable, "-c", FOLLOW, str(little_store.root)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=unshared, text=True, **pipes) as reader:  # type: ignore[call-overload]
        assert reader.stdout.readline() == "1\n"
        little_store.journal.send(1001, QUEUE_A)
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "2\n"


@pytest.mark.rule("S-303")
def test_it_can_be_written(store_copy: Callable[[str], Path], unshared: Mapping[str, str]) -> None:
    data = store_copy("orders-basic")
    before = len(journalfs("cat", data).stdout.splitlines())
    done = run(unshared, "put", data, "orders", SOURCE)
    assert done.returncode == 0, done.stderr
    assert len(journalfs("cat", data).stdout.splitlines()) == before + 1  # the whole file
