"""Names that begin with a dot or an underscore: ordinary files until they get a plain name."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.mounting import QueueOnDisk, parts_and_tail
from tests.writing.conftest import Address, Remount, bodies, errno_of, shell, write_at_once

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
NOREPLACE, EXCHANGE = 1, 2
DEADLINE_S = 60
WEEK_S = 7 * 24 * 3600


def rename_with(flags: int, source: Path, target: Path) -> int:
    """renameat2(2); the errno it fails with, or 0."""
    failed = LIBC.renameat2(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target), flags)
    return ctypes.get_errno() if failed else 0


@pytest.mark.rule("S-78")
@pytest.mark.parametrize("place", ["root", "address", "queue"])
def test_staged_files_are_ordinary_files(address: Address, place: str) -> None:
    folder = {"root": address.mount.path, "address": address.path, "queue": address.first.path}[place]
    before = sorted(os.listdir(folder))
    name = f"_{address.name}"
    said = shell(
        f"""set -e
        echo one > {name}; echo two >> {name}; cat {name}
        printf ONE | dd of={name} conv=notrunc status=none; cat {name}
        truncate -s 2 {name}; cat {name}; stat -c ' %s' {name}
        chmod 600 {name}; touch -d @1000 {name}; stat -c '%a %Y' {name}
        mkdir {name}.d; mv {name} {name}.d/inside; ls -A {name}.d; cp {name}.d/inside {name}.d/_copy
        rmdir {name}.d || ls -A {name}.d; rm -r {name}.d; ls -A {name}.d || true""",
        folder,
    )
    assert said.split("\n")[:8] == ["one", "two", "ONE", "two", "ON 2", "600 1000", "inside", "_copy"]
    assert "Directory not empty" in said
    assert "No such file or directory" in said
    assert sorted(os.listdir(folder)) == before
    assert address.first.lines() == address.second.lines() == []


@pytest.mark.rule("S-78")
def test_a_staged_file_keeps_its_number_and_outlives_its_name(address: Address) -> None:
    path = address.first.path / "_draft"
    with path.open("w+b", buffering=0) as file:
        file.write(b"some text")
        number = os.fstat(file.fileno()).st_ino
        renamed = path.rename(path.with_name(".other"))
        os.fchmod(file.fileno(), 0o640)
        assert os.fstat(file.fileno()).st_mode & 0o777 == 0o640
        assert renamed.stat().st_ino == number
        path.write_bytes(b"another")
        assert path.stat().st_ino != number
        renamed.unlink()
        assert not renamed.exists()
        assert os.fstat(file.fileno()).st_size == 9
        assert os.pread(file.fileno(), 100, 0) == b"some text"


@pytest.mark.rule("S-78")
def test_two_who_have_a_staged_file_open_see_the_same(address: Address) -> None:
    path = address.first.path / "_draft"
    with path.open("ab", 0) as writer, path.open("ab", 0) as other, path.open("rb", 0) as reader:
        writer.write(b"one ")
        other.write(b"two ")
        writer.write(b"three")
        assert reader.read() == b"one two three"


@pytest.mark.rule("S-78")
def test_staged_names_outlive_the_mount_and_what_they_are_in(remount: Remount, tmp_path: Path) -> None:
    """However old they are: they were put there lately."""
    mount = remount()
    address = Address(mount)
    kept, old = address.first.path / "_kept", address.first.path / "_old"
    kept.write_text("kept\n")
    old.write_text("old\n")
    (address.path / "_young").mkdir()
    (address.path / "_young" / "inside").write_text("young\n")
    long_ago = time.time() - 2 * WEEK_S
    os.utime(old, (long_ago, long_ago))
    os.utime(address.path / "_young", (long_ago, long_ago))
    address.second.path.rmdir()
    gone = address.queue("gone").path
    (gone / "_staged").write_text("")
    gone.rmdir()
    mount = remount()
    assert kept.read_text() == "kept\n"
    assert (address.path / "_young" / "inside").read_text() == "young\n"
    assert old.read_text() == "old\n"
    staging = tmp_path / "store" / "journalfs" / "staging"
    assert sorted(path.name for path in staging.rglob("*") if path.is_file()) == ["_kept", "_old", "inside"]
    kept.rename(kept.with_name("kept.txt"))
    assert bodies(QueueOnDisk(mount.path / address.name / address.first.path.name)) == ["kept"]


@pytest.mark.rule("S-79")
def test_a_plain_name_publishes_a_staged_file(address: Address) -> None:
    staged = address.path / "_staged"
    staged.write_text("one\ntwo\nunfinished")
    assert address.first.lines() == []
    staged.rename(address.path / "in.txt")
    assert not staged.exists()
    assert shell("test -e in.txt", address.path, succeeds=False) == ""
    assert bodies(address.first) == bodies(address.second) == ["one", "two", "unfinished"]
    write_at_once(address.path / ".whole", [b"a whole file"])
    (address.path / ".whole").rename(address.second.path / "whole.dat")
    assert len(bodies(address.first)) == 3
    assert address.second.lines()[-1]["type"] == "bytes"


@pytest.mark.rule("S-79")
def test_the_same_process_gives_a_name_again_and_again(address: Address) -> None:
    for number in range(3):
        staged = address.first.path / f"_job-{number}"
        staged.mkdir()
        (staged / "in.txt").write_text(f"{number}\n")
        staged.rename(address.first.path / "done")
        assert not (address.first.path / "done").exists()
    assert bodies(address.first) == ["0", "1", "2"]
    for number in range(3):
        staged = address.first.path / f"_in-{number}"
        staged.write_text(f"{number}\n")
        staged.rename(address.first.path / "in.txt")
    assert len(bodies(address.first)) == 6
    assert address.refusals() == []


@pytest.mark.rule("S-79")
def test_a_staged_directory_is_published_at_once_in_the_order_of_its_paths(address: Address) -> None:
    shell(
        """mkdir -p _job/b/c _job/.hidden; echo 2 > _job/b/2.txt; echo 3 > _job/b/c/3.txt; echo 1 > _job/a.txt
        echo '"4"' > _job/c.json; echo no > _job/.a.txt.crc; echo no > _job/.hidden/x.txt
        touch _job/empty.bin; mv _job done""",
        address.first.path,
    )
    assert bodies(address.first) == ["1", "2", "3", '"4"']
    assert not (address.first.path / "_job").exists()


@pytest.mark.rule("S-79")
def test_what_a_directory_does_not_publish_is_kept(address: Address) -> None:
    staged = address.path / ".staged"
    (staged / "_below").mkdir(parents=True)
    for name in ("one.txt", ".hidden", "_noted.txt", "two.txt~", "_below/three.txt", ".one.txt.crc"):
        (staged / name).write_text("x\n")
    (staged / ".empty").touch()
    staged.rename(address.path / "published")
    assert bodies(address.first) == ["x"]
    assert not staged.exists()
    (event,) = (one for one in address.mount.events() if f"{address.name}/.staged: 4 files" in one["message"])
    assert event["event"] == "kept"
    kept = Path(event["message"].partition(" they are in ")[2].partition(" now: ")[0])
    assert kept.name == "unpublished"
    found = {path.name.split("-", 2)[2]: path.read_text() for path in kept.iterdir()}
    wanted = {".hidden", "_noted.txt", "two.txt~", "three.txt"}
    assert {name: found.get(name) for name in wanted} == dict.fromkeys(wanted, "x\n")


@pytest.mark.rule("S-79")
def test_what_cannot_be_published_as_a_whole_stays_staged(address: Address) -> None:
    shell(
        """mkdir _job; echo '{"type":"text","body":"good"}' > _job/1.jsonl
        echo '{"bad":1}' > _job/2.jsonl""",
        address.first.path,
    )
    staged = address.first.path / "_job"
    assert errno_of(staged.rename, address.first.path / "job") == errno.EBADMSG
    assert sorted(os.listdir(staged)) == ["1.jsonl", "2.jsonl"]
    assert address.first.lines() == []
    ((what, reason),) = address.refusals()
    assert what == f"{address.name}-first/_job: EBADMSG"
    assert reason == "2.jsonl: line 1: bad: there is no such key in an envelope; nothing was published"


@pytest.mark.rule("S-79", "S-74")
@pytest.mark.parametrize("files", [3, 301])
def test_the_file_at_fault_is_named_once_for_each_mv(address: Address, files: int) -> None:
    """`mv` asks once and says something true, and a new `mv` for the same is another fault."""
    staged = address.first.path / "_job"
    (staged / "in").mkdir(parents=True)
    for number in range(files):
        (staged / "in" / f"{number:03}.jsonl").write_text('{"type":"text","body":"good"}\n')
    with (staged / "in" / "001.jsonl").open("a") as file:
        file.write('{"type":"text","body":"good"}\n{"type":"text"')
    for _ in range(2):
        assert "Bad message" in shell("mv _job job", address.first.path, succeeds=False)
    said = address.refusals()
    assert [what for what, _ in said] == [f"{address.name}-first/_job: EBADMSG"] * 2
    for _, reason in said:
        assert reason.startswith("in/001.jsonl: line 3: ")
        assert reason.endswith("; nothing was published")
    assert address.first.lines() == []
    # What is mended is published.
    (staged / "in" / "001.jsonl").unlink()
    shell("mv _job job", address.first.path)
    assert len(address.first.lines()) == files - 1


@pytest.mark.rule("S-79")
def test_a_file_that_is_being_written_is_not_published(address: Address) -> None:
    staged = address.first.path / "_staged"
    with staged.open("wb", buffering=0) as file:
        file.write(b"one\n")
        assert errno_of(staged.rename, address.first.path / "in.txt") == errno.EBUSY
    staged.rename(address.first.path / "in.txt")
    assert bodies(address.first) == ["one"]


@pytest.mark.rule("S-79")
@pytest.mark.parametrize("by_another", [False, True])
def test_a_file_that_is_open_is_published_once_it_was_synced(address: Address, by_another: bool) -> None:
    staged = address.first.path / "_staged"
    with staged.open("wb", buffering=0) as file:
        file.write(b"one\n")
        os.fsync(file.fileno())
        file.write(b"two\n")
        assert errno_of(staged.rename, address.first.path / "in.txt") == errno.EBUSY
        # A child process would close what it inherits, which is a flush.
        with staged.open("rb") as another:
            os.fsync((another if by_another else file).fileno())
            staged.rename(address.first.path / "in.txt")
        assert bodies(address.first) == ["one", "two"]
        assert errno_of(file.write, b"three\n") == errno.ESTALE


@pytest.mark.rule("S-79")
def test_a_directory_with_a_file_that_is_being_written_is_not_published(address: Address) -> None:
    staged = address.first.path / "_job"
    (staged / "inside").mkdir(parents=True)
    with (staged / "inside" / "a.txt").open("wb", buffering=0) as file:
        file.write(b"one\n")
        assert errno_of(staged.rename, address.first.path / "job") == errno.EBUSY
        assert bodies(address.first) == []
    staged.rename(address.first.path / "job")
    assert bodies(address.first) == ["one"]


@pytest.mark.rule("S-79")
@pytest.mark.parametrize("name", ["_job.txt", "_job/inside/a.txt", "_job/.hidden"])
def test_who_writes_on_after_the_publication_is_told(address: Address, name: str) -> None:
    staged = address.first.path / "_job.txt" if "/" not in name else address.first.path / "_job"
    path = address.first.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb", buffering=0) as file:
        file.write(b"one\n")
        os.close(os.dup(file.fileno()))
        staged.rename(address.first.path / "job.txt")
        assert errno_of(file.write, b"two\n") == errno.ESTALE
    assert bodies(address.first) == ([] if path.name == ".hidden" else ["one"])
    ((what, reason),) = address.refusals()
    assert what.endswith("ESTALE")
    assert "it was published" in reason
    # What is removed is an ordinary file still.
    other = address.first.path / "_other"
    with other.open("xb", buffering=0) as file:
        other.unlink()
        assert file.write(b"nobody's") == 8


@pytest.mark.rule("S-79")
def test_a_directory_that_is_being_published_takes_nothing_more(address: Address) -> None:
    write_at_once(address.second.path / "in.txt", [b"one\n"])
    os.setxattr(address.path, "user.journalfs.address-full-policy", b"BLOCK")
    os.setxattr(address.path, "user.journalfs.max-size-messages", b"1")
    staged = address.first.path / "_job"
    staged.mkdir()
    (staged / "a.txt").write_text("a\n")
    found, deadline = errno.EAGAIN, time.monotonic() + DEADLINE_S
    while found == errno.EAGAIN and time.monotonic() < deadline:
        with ThreadPoolExecutor(1) as threads:
            renamed = threads.submit(errno_of, staged.rename, address.first.path / "job")
            while (
                not json.loads((address.path / ".status").read_text())["blockedWriters"]
                and not renamed.done()
            ):
                pass
            for late in ("a.txt", "b.txt", "c"):
                found = _try_to_change(staged / late)
                if found != errno.EBUSY:
                    break
            assert renamed.result() == errno.EAGAIN
    assert found == errno.EBUSY
    assert sorted(os.listdir(staged)) == ["a.txt"]
    assert (staged / "a.txt").read_text() == "a\n"


def _try_to_change(path: Path) -> int:
    """The errno of a change of what may be being published; EAGAIN when it went well, after undoing it."""
    there = path.exists()
    before = path.read_text() if there else ""
    try:
        if path.suffix:
            with path.open("ab", buffering=0) as file:
                file.write(b"late\n")
        else:
            path.mkdir()
    except OSError as error:
        return error.errno or 0
    if there:
        path.write_text(before)
    elif path.suffix:
        path.unlink()
    else:
        path.rmdir()
    return errno.EAGAIN


@pytest.mark.rule("S-41")
def test_a_new_directory_has_not_the_number_of_one_that_was_published(address: Address) -> None:
    """The system gives the numbers of real directories again at once."""
    numbers, held = [], []
    try:
        for number in range(12):
            queue = (address.first, address.second)[number % 2]
            staged = queue.path / f"_job-{number}"
            staged.mkdir()
            held.append(os.open(staged, os.O_RDONLY | os.O_DIRECTORY))
            numbers.append(staged.stat().st_ino)
            assert staged.stat().st_ino == numbers[-1]
            staged.rename(queue.path / f"job-{number}")
    finally:
        for descriptor in held:
            os.close(descriptor)
    assert len(set(numbers)) == len(numbers)


@pytest.mark.rule("S-79")
def test_messages_are_never_replaced(address: Address) -> None:
    write_at_once(address.first.path / "in.txt", [b"one\n"])
    staged = address.first.path / "_staged"
    staged.write_text("two\n")
    (message,) = address.first.listed()
    assert errno_of(staged.rename, address.first.path / ".messages" / message) == errno.EPERM
    assert errno_of(staged.rename, address.first.path / ".status") == errno.EPERM
    assert errno_of(staged.rename, address.mount.path / "plain") == errno.EPERM
    assert staged.read_text() == "two\n"
    assert bodies(address.first) == ["one"]


@pytest.mark.rule("S-79")
def test_flags_of_renaming(address: Address) -> None:
    one, two = address.first.path / "_one", address.first.path / "_two"
    one.write_text("one")
    two.write_text("two")
    assert rename_with(NOREPLACE, one, two) == errno.EEXIST
    assert rename_with(EXCHANGE, one, two) == errno.EINVAL
    assert (one.read_text(), two.read_text()) == ("one", "two")
    assert rename_with(NOREPLACE, one, one.with_name("_three")) == 0
    assert rename_with(0, one.with_name("_three"), two) == 0
    assert two.read_text() == "one"
    assert rename_with(NOREPLACE, two, two.with_name("in.txt")) == 0
    assert bodies(address.first) == ["one"]


@pytest.mark.rule("S-80")
def test_temporary_files_of_tools_are_staged_whatever_their_name(address: Address) -> None:
    shell(
        """set -e; t=$(mktemp -p .); echo one > $t; echo two >> $t; test $(cat *.jsonl | wc -l) = 0
        test -f $t; mv $t in.txt; test ! -e $t""",
        address.first.path,
    )
    assert bodies(address.first) == ["one", "two"]


@pytest.mark.rule("S-80")
def test_editing_a_part_in_place_changes_nothing(address: Address) -> None:
    write_at_once(address.first.path / "in.txt", [b"one\n"])
    (message,) = address.first.listed()
    before = address.first.lines()
    said = shell(f"sed -i s/one/two/ .messages/{message}", address.first.path, succeeds=False)
    assert "couldn't open temporary file" in said or "Operation not permitted" in said
    assert address.first.lines() == before


@pytest.mark.rule("S-80")
def test_editing_the_tail_in_place_changes_nothing(address: Address) -> None:
    path = address.first.path
    with (path / "in.txt").open("wb", buffering=0) as file:
        file.write(b"one\n")
        deadline = time.monotonic() + DEADLINE_S
        while not parts_and_tail(path)[1] and time.monotonic() < deadline:
            file.write(b"one\n")
        before = bodies(address.first)
        shell("sed -i s/one/two/ _tail.jsonl", path, succeeds=False)
    assert bodies(address.first) == before
    assert set(before) == {"one"}


@pytest.mark.rule("S-81")
def test_signs_of_a_finished_job_are_accepted_and_dropped(address: Address) -> None:
    names = ["_SUCCESS", "._SUCCESS.crc", ".part-0.crc"]
    for name in names:
        path = address.first.path / name
        with path.open("wb", buffering=0) as file:
            file.write(b"crc\0")
            path.chmod(0o644)
            assert path.stat().st_size == 4
        assert not path.exists()
    shell("mkdir _t; echo x > _t/.a.crc; mv _t/.a.crc .a.crc; test ! -e .a.crc; rmdir _t", address.first.path)
    assert address.first.lines() == []


@pytest.mark.rule("S-81")
def test_the_log_of_a_file_sink_is_refused(address: Address) -> None:
    assert errno_of((address.first.path / "_spark_metadata").mkdir) == errno.EPERM
    ((what, reason),) = address.refusals()
    assert what == f"{address.name}-first/_spark_metadata: EPERM"
    assert "foreachBatch" in reason
