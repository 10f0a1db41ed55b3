"""`journalfs mount`, `journalfs umount` and `mount.journalfs` as they are called, on real brokers' stores."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from journalfs_mount.process.mount_table import mounted_at
from journalfs_mount.start.mountpoint import is_dead, serving_process
from tests.frozen import PristineStores
from tests.mount.conftest import DEADLINE_S, ROOT, until
from tests.mounting import JOURNALFS, given
from tests.tools.crash_copy import copy_as_left

pytestmark = pytest.mark.mount

COMMAND = [sys.executable, "-m", "journalfs.cli.main"]
HELPER = [sys.executable, "-c", "from journalfs_mount.start.helper import main; main()"]


@pytest.fixture
def store(stores: PristineStores) -> Path:
    return stores["orders-basic"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "mnt"
    path.mkdir()
    yield path
    while mounted_at(path) is not None:
        subprocess.run(["umount", "--lazy", path], check=True)


def run(*words: str | Path, command: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*(command or COMMAND), *given(words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "Traceback" not in done.stderr
    return done


def server_of(place: Path) -> int:
    """Process id of the mount's process."""
    descriptor = serving_process(place)
    assert descriptor is not None
    fields = Path(f"/proc/self/fdinfo/{descriptor}").read_text().split()
    os.close(descriptor)
    return int(fields[fields.index("Pid:") + 1])


def test_mounting_returns_when_the_mount_answers_and_unmounting_when_it_is_gone(
    store: Path, place: Path
) -> None:
    done = run("mount", "--read-only", store, place)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "orders" in {name.partition(".")[0] for name in os.listdir(place)}
    process = server_of(place)
    assert os.readlink(f"/proc/{process}/cwd") == "/"
    assert {os.readlink(f"/proc/{process}/fd/{number}") for number in range(3)} == {os.devnull}
    assert os.getsid(process) == process
    assert run("umount", place).returncode == 0
    assert mounted_at(place) is None
    assert not Path(f"/proc/{process}/fd/0").exists(), "the process ended, or is about to be reaped"


def test_output_of_the_caller_is_not_kept_open(store: Path, place: Path) -> None:
    """`$(journalfs mount ...)` and pipelines end when the command does."""
    reader, writer = os.pipe()
    done = subprocess.run(
        [*COMMAND, "mount", "--read-only", store, place], cwd=ROOT, check=False, pass_fds=[writer], timeout=60
    )
    os.close(writer)
    assert done.returncode == 0
    assert os.read(reader, 1) == b"", "nobody else holds the writing end"
    os.close(reader)


@pytest.mark.parametrize(
    "case",
    [
        (["--read-only", "STORE", "PLACE/absent"], 32, "the directory does not exist; create it first"),
        (["--read-only", "PLACE", "PLACE"], 1, "would hide the store"),
        (["--read-only", "EMPTY", "PLACE"], 3, "looked for"),
        (["--read-only", "EMPTY/absent", "PLACE"], 3, ""),
        (["-o", "rw", "EMPTY", "PLACE"], 3, "looked for"),
        (["-o", "sync=fast", "STORE", "PLACE"], 1, "sync=always or sync=close or sync=none"),
        (["-o", "ro,allow_ohter", "STORE", "PLACE"], 1, "'allow_ohter'; did you mean 'allow_other'?"),
        (["-o", "ro,loop=slow", "STORE", "PLACE"], 1, "loop=fast or loop=stock"),
        (["--loop", "slow", "STORE", "PLACE"], 1, "'slow' is not one of"),
        (["STORE"], 1, "missing argument 'MOUNTPOINT'"),
    ],
)
def test_what_cannot_be_mounted_is_said_in_one_line(
    store: Path, place: Path, tmp_path: Path, case: tuple[list[str], int, str]
) -> None:
    words, code, text = case
    (tmp_path / "empty").mkdir()
    named = {"STORE": str(store), "PLACE": str(place), "EMPTY": str(tmp_path / "empty")}
    for name, path in named.items():
        words = [word.replace(name, path) for word in words]
    done = run("mount", *words)
    assert done.returncode == code, done.stderr
    assert text in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert mounted_at(place) is None


def test_a_full_mount_point_is_refused_unless_told(store: Path, place: Path) -> None:
    (place / "file").write_bytes(b"")
    done = run("mount", "--read-only", store, place)
    assert (done.returncode, "is not empty" in done.stderr) == (32, True)
    assert run("mount", "-o", "ro,nonempty", store, place).returncode == 0
    assert not (place / "file").exists()
    done = run("mount", "--read-only", store, place)
    assert (done.returncode, "is mounted there" in done.stderr) == (32, True)


def test_a_store_is_named_by_its_absolute_path_whatever_its_name(
    store: Path, place: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "größe, a\\b c"
    copy_as_left(store, copy)
    done = subprocess.run(
        [JOURNALFS, "mount", "--read-only", copy.name, place], cwd=copy.parent, check=False, timeout=60
    )
    assert done.returncode == 0
    entry = mounted_at(place)
    assert entry is not None
    assert entry.source == str(copy)
    shown = subprocess.run(["df", "--output=source", place], check=True, capture_output=True, text=True)
    assert shown.stdout.splitlines()[1] == str(copy)
    assert json.loads((place / ".journalfs/mount.json").read_text())["store"] == str(copy)


def test_without_the_fuse_device_it_says_what_to_do(store: Path, place: Path) -> None:
    script = 'mount -t tmpfs none /dev && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", *COMMAND]
    done = run("mount", "--read-only", store, place, command=command)
    assert done.returncode == 32
    assert "/dev/fuse cannot be opened" in done.stderr
    assert "modprobe fuse" in done.stderr


def test_without_pyfuse3_it_says_what_to_install(store: Path, place: Path) -> None:
    program = "import sys; sys.modules['pyfuse3'] = None; from journalfs.cli.main import main; main()"
    done = run("mount", "--read-only", store, place, command=[sys.executable, "-c", program])
    assert done.returncode == 32
    assert "libfuse3-dev" in done.stderr
    assert "fuse3-devel" in done.stderr
    assert "pip install 'journalfs[mount]'" in done.stderr


def test_a_killed_mount_is_replaced_by_mounting_again(store: Path, place: Path) -> None:
    assert run("mount", "--read-only", store, place).returncode == 0
    os.kill(server_of(place), signal.SIGKILL)
    until(lambda: is_dead(place), "the mount is dead")
    assert run("mount", "--read-only", store, place).returncode == 0
    assert os.listdir(place)
    os.kill(server_of(place), signal.SIGKILL)
    until(lambda: is_dead(place), "the mount is dead")
    assert run("umount", place).returncode == 0
    assert os.listdir(place) == []


def test_unmounting_what_is_in_use_names_the_user(store: Path, place: Path) -> None:
    assert run("mount", "--read-only", store, place).returncode == 0
    with open(next(place.glob("*/*/_tail.jsonl")), "rb"):
        done = run("umount", place)
        assert done.returncode == 7
        assert f"({os.getpid()})" in done.stderr
    assert run("umount", place).returncode == 0
    done = run("umount", place)
    assert (done.returncode, "no journalfs filesystem" in done.stderr) == (32, True)


def test_in_the_foreground_it_logs_tells_the_service_manager_and_ends_on_ctrl_c(
    store: Path, place: Path, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(DEADLINE_S)
        process = subprocess.Popen(
            [*COMMAND, "mount", "--read-only", "--foreground", store, place],
            cwd=ROOT,
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
            stderr=subprocess.PIPE,
        )
        assert manager.recv(100) == b"READY=1"
    assert os.listdir(place)
    process.send_signal(signal.SIGINT)
    _, log = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert b"SIGINT: unmounting" in log
    assert mounted_at(place) is None


def test_a_process_that_dies_before_it_is_ready_is_reported(place: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from journalfs_mount.start.launch import Start, start; "
        "from journalfs_mount.options import MountOptions; "
        "start(Start(Path('/nowhere'), Path(sys.argv[1]), MountOptions(read_only=True), "
        "lambda: os.kill(os.getpid(), 9)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, place], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert "the mount's process ended before it was ready (killed by signal 9)" in done.stderr


def test_the_log_goes_to_a_file_when_told(store: Path, place: Path, tmp_path: Path) -> None:
    assert run("mount", "--read-only", "--log-file", tmp_path / "log", store, place).returncode == 0
    with pytest.raises(OSError, match="Invalid argument"):
        (next(place.glob("*/*/")) / ".where/no selector").stat()
    assert run("umount", place).returncode == 0
    assert "no selector" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["-o", "ro,nofail,_netdev,noauto,x-systemd.automount,users,relatime"], 0, ""),
        (["-r", "-n", "-v"], 0, "is mounted on"),
        (["-s", "-o", "ro,unheard_of"], 0, ""),
        (["-f", "-o", "ro"], 0, ""),
        (["-o", "ro,unheard_of"], 1, "unknown mount option 'unheard_of'"),
    ],
)
def test_the_mount_helper_takes_what_mount_passes(
    store: Path, place: Path, words: list[str], code: int, text: str
) -> None:
    done = run(store, place, *words, command=HELPER)
    assert done.returncode == code, done.stderr
    assert text in done.stdout + done.stderr
    assert (mounted_at(place) is not None) == (code == 0 and "-f" not in words)


def test_the_mount_helper_is_told_of_older_stores(
    stores: PristineStores, place: Path, tmp_path: Path
) -> None:
    """What the store is, and where what is derived from it goes."""
    old = stores["hq-2.4-main"]
    derived = tmp_path / "derived"
    done = run(old, place, "-o", f"ro,format=hornetq,derived={derived}", command=HELPER)
    assert done.returncode == 0, done.stderr
    assert (place / ".journalfs").is_dir()
    assert list(derived.rglob("older.json"))
    assert run("umount", place).returncode == 0
    done = run(old, place, "-o", "format=hornetque", command=HELPER)
    assert done.returncode == 1
    assert "give format=artemis or format=hornetq" in done.stderr


def test_the_mount_helper_ends_with_the_codes_of_mount(place: Path) -> None:
    done = run(place, place, "-o", "ro", command=HELPER)
    assert done.returncode == 1, "the store would be hidden: a wrong call"
    done = run("/dev", place, "-o", "ro", command=HELPER)
    assert done.returncode == 32, "not a store"


def test_as_many_files_may_be_open_as_the_system_allows(store: Path, place: Path) -> None:
    """Whoever writes into the mount has files open in it."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    script = (
        f"ulimit -S -n 256; exec {sys.executable} -m journalfs.cli.main mount --read-only {store} {place}"
    )
    assert run("-c", script, command=["bash"]).returncode == 0
    assert resource.prlimit(server_of(place), resource.RLIMIT_NOFILE) == (most, most)


def test_a_mount_with_few_descriptors_is_not_begun(store: Path, place: Path) -> None:
    script = f"ulimit -n 100; exec {sys.executable} -m journalfs.cli.main mount --read-only {store} {place}"
    done = run("-c", script, command=["bash"])
    assert done.returncode != 0
    assert "needs 128 file descriptors, and may have 100" in done.stderr
    assert mounted_at(place) is None


def test_a_mount_keeps_descriptors_for_itself(tmp_path: Path, place: Path) -> None:
    """However many files others open in it."""
    assert run("create", tmp_path / "new").returncode == 0
    script = f"ulimit -n 200; exec {sys.executable} -m journalfs.cli.main mount {tmp_path / 'new'} {place}"
    done = run("-c", script, command=["bash"])
    assert done.returncode == 0, done.stderr
    (place / "work/queue").mkdir(parents=True)
    with ExitStack() as opened:
        for number in range(150):
            opened.enter_context((place / f"work/queue/.staged-{number}").open("w"))
        with pytest.raises(OSError, match="Too many open files in system"):
            opened.enter_context((place / "work/queue/.one-more").open("w"))
        (place / "work/queue/.batch").mkdir()
        (place / "work/queue/.staged-0").rename(place / "work/queue/.batch/1.txt")
        (place / "work/other").mkdir()
        assert (place / "work/queue/_tail.jsonl").parent.is_dir()
    (place / "work/queue/in.txt").write_text("published\n")
    assert b"published" in (place / "work/queue/.all.jsonl").read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="binding a mount to another place needs root")
def test_a_mount_that_was_bound_to_another_place(store: Path, place: Path) -> None:
    """Its process is told to hold the store, and where it is mounted, at once."""
    other = place.with_name("other")
    other.mkdir()
    assert run("mount", "--read-only", store, place).returncode == 0
    subprocess.run(["mount", "--bind", place, other], check=True)
    try:
        done = run("umount", place)
        assert done.returncode == 32
        assert f"the same filesystem is mounted at {other}; unmount that too" in done.stderr
        assert mounted_at(place) is None
        assert (other / ".journalfs").is_dir()
    finally:
        last = run("umount", other)
    assert (last.returncode, last.stderr) == (0, "")
