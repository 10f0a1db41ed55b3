"""What one user takes of a mount that all may use is that user's share: everybody else goes on."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyfuse3 import FUSEError

from journalfs_mount.shares import Share, Shares
from tests.mounting import COMMAND_S_MAX, MountedStore, mounted_for_writing
from tests.writing.conftest import new_store

AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
OTHER, THIRD = 12_345, 12_346

READERS = """
import errno, os, sys, threading, time
path, count = sys.argv[1], int(sys.argv[2])
refused, waiting = [], []
def read(fd):
    try:
        os.read(fd, 65536)
    except OSError as error:
        refused.append(errno.errorcode[error.errno])
opened = []
for _ in range(count):
    try:
        opened.append(os.open(path, os.O_RDONLY))
    except OSError as error:
        refused.append(errno.errorcode[error.errno])
for fd in opened:
    threading.Thread(target=read, args=(fd,), daemon=True).start()
end = time.monotonic() + 20
while time.monotonic() < end and len(refused) < count - int(sys.argv[3]):
    time.sleep(0.01)
print(len(opened), sorted(set(refused)), len(refused), flush=True)
sys.stdin.readline()
os._exit(0)
"""


@pytest.fixture
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MountedStore]:
    base = Path("/tmp") / f"journalfs-shares-{os.getpid()}"
    base.mkdir(mode=0o755)
    store = new_store(base / "store")
    (store / "journalfs.toml").open("a").write(
        "\nuser-waiting-max = 8\nuser-streams-max = 20\nuser-open-max = 100\n"
    )
    try:
        with mounted_for_writing(store, base / "mnt", "-o", "allow_other") as mount:
            (mount.path / "work").mkdir()
            (mount.path / "work/work").mkdir()
            yield mount
    finally:
        subprocess.run(["rm", "-rf", base], check=True)


def as_user(user: int, program: str, *arguments: str) -> subprocess.Popen[str]:
    command = [
        "setpriv",
        f"--reuid={user}",
        f"--regid={user}",
        "--clear-groups",
        "/usr/bin/python3",
        "-c",
        program,
    ]
    return subprocess.Popen(
        [*command, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@AS_ROOT
@pytest.mark.rule("S-160")
def test_who_waits_for_messages_takes_nobody_elses_places(shared: MountedStore) -> None:
    path = str(shared.path / "work/work/.follow")
    with as_user(OTHER, READERS, path, "30", "8") as greedy:
        assert greedy.stdout is not None
        assert greedy.stdout.readline() == "20 ['EAGAIN', 'EDQUOT'] 22\n"
        users = shared.control("mount.json")["users"]
        assert users["user-waiting-max"] == {"max": 8, "held": {str(OTHER): 8}}
        assert users["user-streams-max"]["held"] == {str(OTHER): 20}
        assert any(one["name"] == "user-streams-max" for one in shared.control("mount.json")["refused"])
        with as_user(THIRD, READERS, path, "3", "3") as modest:
            (shared.path / "work/x.txt").write_text("for all\n")
            assert modest.communicate("\n", timeout=COMMAND_S_MAX)[0].startswith("3 [] 0")
        greedy.communicate("\n", timeout=COMMAND_S_MAX)
    held = shared.control("mount.json")["users"]
    assert str(OTHER) not in held["user-streams-max"]["held"]


@AS_ROOT
@pytest.mark.rule("S-160")
def test_open_files_have_a_share(shared: MountedStore) -> None:
    (shared.path / "work/x.txt").write_text("one\n")
    program = """
import errno, os, sys
opened = []
try:
    for _ in range(200):
        opened.append(os.open(sys.argv[1], os.O_RDONLY))
except OSError as error:
    print(len(opened), errno.errorcode[error.errno])
"""
    with as_user(OTHER, program, str(shared.path / "work/work/_tail.jsonl")) as greedy:
        assert greedy.communicate(timeout=COMMAND_S_MAX)[0] == "100 EDQUOT\n"
    descriptors = [os.open(shared.path / "work/work/_tail.jsonl", os.O_RDONLY) for _ in range(150)]
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.mark.rule("S-160")
def test_root_and_who_mounted_have_what_is_left() -> None:
    shares = Shares({str(share): 2 for share in Share})
    for _ in range(5):
        shares.take(Share.STREAMS, os.getuid())
        shares.take(Share.STREAMS, 0)
    for _ in range(2):
        shares.take(Share.WAITING, OTHER)
    with pytest.raises(FUSEError) as caught:
        shares.take(Share.WAITING, OTHER)
    assert caught.value.errno == errno.EAGAIN
    shares.give_back(Share.WAITING, OTHER)
    shares.take(Share.WAITING, OTHER)
    assert shares.room(128, OTHER) < shares.room(128, 0) == 128
