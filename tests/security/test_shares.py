"""What one user takes of a mount that all may use is that user's share: everybody else goes on."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyfuse3 import FUSEError

from journalfs_mount.process.shares import Share, Shares
from tests.mounting import COMMAND_S_MAX, MountedStore, mounted_for_writing
from tests.security.adversary import many_messages, publish
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
        "\nuser-waiting-max = 8\nuser-streams-max = 20\nuser-open-max = 100\nuser-selections-max = 3\n"
        "user-staged-bytes-max = 1000000\n"
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


@AS_ROOT
@pytest.mark.rule("S-160")
def test_selections_that_are_being_found_have_a_share(shared: MountedStore) -> None:
    """Of several queues: the kernel asks for one name of a directory after the other."""
    many = shared.path / "many"
    for number in range(8):
        (many / f"q{number}").mkdir(parents=True)
    many_messages(shared.path.parent / "many.jsonl", 5_000)
    publish(shared.path.parent / "many.jsonl", many / "many.jsonl")
    program = """
import errno, os, sys, threading
said = []
def look(n):
    for again in range(10):
        first = n * 1000 + again * 100
        selector = " OR ".join(f"n = {first + m} AND region LIKE '%25x{m}%25'" for m in range(20))
        try:
            os.listdir(os.path.join(sys.argv[1], f"q{n}/.where", selector))
        except OSError as error:
            said.append(errno.errorcode[error.errno])
threads = [threading.Thread(target=look, args=(n,)) for n in range(8)]
[one.start() for one in threads]
[one.join() for one in threads]
print(sorted(set(said)), len(said) < 80)
"""
    with as_user(OTHER, program, str(many)) as greedy:
        modest = "import os, sys; print(len(os.listdir(sys.argv[1])) > 0)"
        with as_user(THIRD, modest, str(many / "q0/.where/n < 5")) as third:
            assert third.communicate(timeout=COMMAND_S_MAX)[0] == "True\n"
        assert greedy.communicate(timeout=COMMAND_S_MAX)[0] == "['EAGAIN'] True\n"
    assert shared.control("mount.json")["users"]["user-selections-max"] == {"max": 3, "held": {}}


@AS_ROOT
@pytest.mark.rule("S-164")
def test_staged_bytes_have_a_share(shared: MountedStore) -> None:
    program = """
import errno, os, sys, time
def put(name, size):
    try:
        with open(name, "wb", buffering=0) as file:
            while size:
                size -= file.write(bytes(min(size, 100_000)))
        return "fits"
    except OSError as error:
        return errno.errorcode[error.errno]
def put_soon(name, size):
    end = time.monotonic() + 20
    while (said := put(name, size)) != "fits" and time.monotonic() < end:
        time.sleep(0.05)
    return said
work = sys.argv[1]
print(put(f"{work}/.one", 700_000), put(f"{work}/.two", 700_000))
opened = open(f"{work}/.one", "rb")
os.remove(f"{work}/.one")
os.remove(f"{work}/.two")
print(put_soon(f"{work}/.three", 200_000), put(f"{work}/.four", 700_000))
opened.close()
os.remove(f"{work}/.four")
print(put_soon(f"{work}/.five", 500_000))
"""
    work = shared.path / "work"
    work.chmod(0o777)
    modest = "import sys; print(open(sys.argv[1], 'wb').write(bytes(500_000)))"
    with as_user(OTHER, program, str(work)) as greedy:
        told = greedy.communicate(timeout=COMMAND_S_MAX)[0].splitlines()
        assert told == ["fits EDQUOT", "fits EDQUOT", "fits"]
        with as_user(THIRD, modest, str(work / ".other")) as third:
            assert third.communicate(timeout=COMMAND_S_MAX)[0] == "500000\n"
        (work / ".root").write_bytes(bytes(3_000_000))


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
