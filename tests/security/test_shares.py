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
        "user-staged-bytes-max = 1000000\nuser-staged-files-max = 20\nuser-open-bytes-max = 2000000\n"
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


def memory_of(process: int) -> int:
    """Bytes of memory that it has to itself."""
    with open(f"/proc/{process}/smaps_rollup") as file:
        return 1024 * sum(int(line.split()[1]) for line in file if line.startswith("Private_"))


MESSAGES = 20_000
OPENS_AT_ONE_MOMENT = """
import os, sys
name, count = sys.argv[1:]
opened = [os.open(name, os.O_RDONLY) for _ in range(int(count))]
listed = [os.fdopen(one, "rb", 0) for one in opened] if not os.path.isdir(name) else []
if os.path.isdir(name):
    listed = [os.scandir(name) for _ in opened]
    print([next(one).name for one in listed][-1] != "", flush=True)
else:
    print({one.read(1000)[:5] for one in listed}, flush=True)
sys.stdin.readline()
"""


@AS_ROOT
@pytest.mark.rule("S-355")
@pytest.mark.parametrize("name", [".all.jsonl", ".where/n %25 2 = 0 OR TRUE/.all.jsonl", ".messages"])
def test_opens_at_one_moment_share_one_list(shared: MountedStore, name: str) -> None:
    """By root, who has no share: a list of its own for each took 62 bytes a message, or 24."""
    queue = shared.path / "work/work"
    many_messages(shared.path.parent / "many.jsonl", MESSAGES)
    publish(shared.path.parent / "many.jsonl", queue / "many.jsonl")
    process = shared.process_id()
    opens = 200

    def opened(count: int) -> int:
        """Memory of the mount while somebody has it open so often."""
        with as_user(0, OPENS_AT_ONE_MOMENT, str(queue / name), str(count)) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() in {"{b'{\"que'}\n", "True\n"}
            found = memory_of(process)
            reader.communicate("\n", timeout=COMMAND_S_MAX)
        return found

    opened(opens)  # what is made once
    assert opened(opens) - opened(1) < opens * MESSAGES * 8


OPENS_IN_TURN = """
import errno, os, sys
folder, count = sys.argv[1:]
opened = []
try:
    for number in range(int(count)):
        with open(f"{folder}/in.txt", "w") as file:
            file.write("one more\\n")
        opened.append(os.open(f"{folder}/.all.jsonl", os.O_RDONLY))
except OSError as error:
    print(len(opened), errno.errorcode[error.errno], flush=True)
sys.stdin.readline()
"""


@AS_ROOT
@pytest.mark.rule("S-355")
def test_lists_of_many_moments_have_a_share_in_bytes(shared: MountedStore) -> None:
    queue = shared.path / "work/work"
    queue.chmod(0o777)
    many_messages(shared.path.parent / "many.jsonl", MESSAGES)
    publish(shared.path.parent / "many.jsonl", queue / "many.jsonl")
    one = "import os, sys; print(len(os.read(os.open(sys.argv[1], os.O_RDONLY), 5)))"
    with as_user(OTHER, OPENS_IN_TURN, str(queue), "20") as greedy:
        assert greedy.stdout is not None
        assert greedy.stdout.readline() == "1 EDQUOT\n"
        held = shared.control("mount.json")["users"]["user-open-bytes-max"]
        assert held["held"][str(OTHER)] > MESSAGES * 60
        with as_user(THIRD, one, str(queue / ".all.jsonl")) as modest:
            assert modest.communicate(timeout=COMMAND_S_MAX)[0] == "5\n"
        greedy.communicate("\n", timeout=COMMAND_S_MAX)
    assert shared.control("mount.json")["users"]["user-open-bytes-max"]["held"] == {}
    (queue / ".all.jsonl").unlink()


@AS_ROOT
@pytest.mark.rule("S-355")
def test_who_rewinds_a_listing_holds_what_it_lists_then(shared: MountedStore) -> None:
    """Each descriptor had a listing of its own again after `rewinddir`."""
    queue = shared.path / "work/work"
    queue.chmod(0o777)
    many_messages(shared.path.parent / "many.jsonl", MESSAGES)
    publish(shared.path.parent / "many.jsonl", queue / "many.jsonl")
    program = """
import errno, os, sys
folder = sys.argv[1]
opened = [os.open(f"{folder}/.messages", os.O_RDONLY) for _ in range(20)]
rewound = 0
try:
    for one in opened:
        os.listdir(one)
        with open(f"{folder}/in.txt", "w") as file:
            file.write("one more\\n")
        os.lseek(one, 0, os.SEEK_SET)
        os.listdir(one)
        rewound += 1
except OSError as error:
    print(rewound, errno.errorcode[error.errno])
"""
    with as_user(OTHER, program, str(queue)) as greedy:
        assert greedy.communicate(timeout=COMMAND_S_MAX)[0] in {"1 EDQUOT\n", "2 EDQUOT\n", "3 EDQUOT\n"}
    (queue / ".all.jsonl").unlink()


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


@AS_ROOT
@pytest.mark.rule("S-356")
@pytest.mark.parametrize(
    ("make", "took"),
    [
        ("open(f'{work}/.{n}', 'wb').close()", 1),
        ("os.mkdir(f'{work}/_{n}')", 1),
        ("os.makedirs(f'{work}/_{n}/a/b/c')", 4),
    ],
)
def test_staged_names_have_a_share_of_inodes(shared: MountedStore, make: str, took: int) -> None:
    """Empty ones took all inodes of the disk: they were limited by bytes alone."""
    program = f"""
import errno, os, sys
work, made = sys.argv[1], 0
try:
    for n in range(100):
        {make}
        made += 1
except OSError as error:
    print(made, errno.errorcode[error.errno])
"""
    work = shared.path / "work"
    os.chown(work, OTHER, OTHER)
    modest = "import os, sys; os.mkdir(sys.argv[1] + '/_third'); print('fits')"
    with as_user(OTHER, program, str(work)) as greedy:
        told = greedy.communicate(timeout=COMMAND_S_MAX)[0]
        assert told == f"{20 // took} EDQUOT\n"
    work.chmod(0o777)
    with as_user(THIRD, modest, str(work)) as third:
        assert third.communicate(timeout=COMMAND_S_MAX)[0] == "fits\n"
    assert any(one["name"] == "user-staged-files-max" for one in shared.control("mount.json")["refused"])


@AS_ROOT
@pytest.mark.rule("S-356")
def test_transactions_that_were_begun_take_of_that_share() -> None:
    program = """
import errno, os, sys
for n in range(100):
    try:
        os.mkdir(f"{sys.argv[1]}/{n}")
    except OSError as error:
        print(n, errno.errorcode[error.errno])
        break
os.rmdir(f"{sys.argv[1]}/0")
"""
    base = Path("/tmp") / f"journalfs-begun-{os.getpid()}"
    base.mkdir(mode=0o755)
    store = new_store(base / "store")
    (store / "journalfs.toml").open("a").write("\nuser-staged-files-max = 20\n")
    try:
        with mounted_for_writing(
            store, base / "mnt", "-o", "allow_other,dir_mode=0777,file_mode=0666"
        ) as mount:
            begun = str(mount.path / ".journalfs/transactions")
            with as_user(OTHER, program, begun) as greedy:
                assert greedy.communicate(timeout=COMMAND_S_MAX)[0] == "5 EDQUOT\n"
            assert sorted(os.listdir(begun)) == ["1", "2", "3", "4"]
    finally:
        subprocess.run(["rm", "-rf", base], check=True)


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


@AS_ROOT
@pytest.mark.rule("S-356")
def test_snapshots_take_of_the_share_of_their_maker() -> None:
    """Each copies the ends of the journals: one user made 785 of them, 2.5 GB, in twenty seconds."""
    program = """
import errno, os, sys
for n in range(100):
    try:
        os.mkdir(f"{sys.argv[1]}/{n}")
    except OSError as error:
        print(n, errno.errorcode[error.errno])
        break
"""
    base = Path("/tmp") / f"journalfs-snapshots-{os.getpid()}"
    base.mkdir(mode=0o755)
    store = new_store(base / "store")
    (store / "journalfs.toml").open("a").write("\nuser-staged-files-max = 60\n")
    options = "allow_other,dir_mode=0777,file_mode=0666"
    try:
        with mounted_for_writing(store, base / "mnt", "-o", options) as mount:
            place = str(mount.path / ".journalfs/snapshots")
            with as_user(OTHER, program, place) as greedy:
                made, said = greedy.communicate(timeout=COMMAND_S_MAX)[0].split()
            assert said == "EDQUOT"
            assert 0 < int(made) < 9
            modest = "import os, sys; os.mkdir(sys.argv[1] + '/third'); print('made')"
            with as_user(THIRD, modest, place) as third:
                assert third.communicate(timeout=COMMAND_S_MAX)[0] == "made\n"
            os.rmdir(f"{place}/0")
            os.mkdir(f"{place}/root")
            assert len(os.listdir(place)) == int(made) + 1
    finally:
        subprocess.run(["rm", "-rf", base], check=True)
