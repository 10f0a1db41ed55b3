"""What Spark's and Hadoop's committers do in a queue, without either: directories of jobs, names given."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mounting import QueueOnDisk
from tests.writing.conftest import Address, Remount, bodies, errno_of, shell

_DRIVER = """
import os, sys
os.makedirs(sys.argv[1] + "/_temporary/0/task_1")
with open(sys.argv[1] + "/_temporary/0/task_1/part-0.txt", "w") as file:
    file.write("of a job that was killed\\n")
print(flush=True)
sys.stdin.read()
"""


@contextmanager
def driver(folder: Path) -> Iterator[None]:
    """A process that has begun a job in `folder`, one task of which is done; killed in the end."""
    command = [sys.executable, "-c", _DRIVER, str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


@pytest.mark.rule("S-125")
@pytest.mark.parametrize("place", ["address", "queue"])
def test_what_a_killed_job_left_is_gone(address: Address, place: str) -> None:
    folder = address.path if place == "address" else address.first.path
    job = folder / "_temporary"
    with driver(folder):
        assert shell("ls _temporary/0/*", folder).split() == ["part-0.txt"]
        assert (job / "0/task_1/part-0.txt").read_text() == "of a job that was killed\n"
    assert not job.exists()
    job.mkdir()
    assert os.listdir(job) == []


@pytest.mark.rule("S-125")
def test_a_directory_of_its_name_that_holds_no_job_stays(address: Address) -> None:
    said = shell(
        "mkdir -p _temporary/notes; ls _temporary; mv _temporary/notes _notes; ls -d _notes", address.path
    )
    assert said.split() == ["notes", "_notes"]
    assert (address.path / "_temporary").exists()


@pytest.mark.rule("S-125")
def test_jobs_over_a_remount(remount: Remount) -> None:
    """The process of one goes on, that of the other has ended meanwhile."""
    mount = remount()
    for name in ("going-on", "killed"):
        (mount.path / name / name).mkdir(parents=True)
    going_on, killed = (mount.path / name / name for name in ("going-on", "killed"))
    with driver(going_on):
        with driver(killed):
            pass
        mount = remount()
        staged = mount.path.with_name("store") / "journalfs" / "staging" / "queues"
        assert [path.name for path in staged.glob("*/*/_temporary/0/*")] == ["task_1"]
        assert (going_on / "_temporary/0/task_1").exists()
    assert not (going_on / "_temporary").exists()
    assert list(staged.glob("*/*/_temporary")) == []


@pytest.mark.rule("S-84")
def test_a_name_that_was_given_is_forgotten_by_the_next_listing(address: Address) -> None:
    """Hadoop's committer looks whether the directory that it renames next is there, and would remove it."""
    source, target = address.first.path / "_job", address.first.path / "kind=1"
    for number in (1, 2):
        (source / str(number)).mkdir(parents=True)
        (source / str(number) / "part.txt").write_text(f"{number}\n")
    (source / "1").rename(target)
    assert os.listdir(source) == ["2"]
    assert not target.exists()
    (source / "2").rename(target)
    assert bodies(QueueOnDisk(address.first.path)) == ["1", "2"]


@pytest.mark.rule("S-79")
def test_what_a_rename_was_refused_is_not_copied(address: Address) -> None:
    """Hadoop and Python copy what they cannot rename, which would publish piece by piece what was refused as
    a whole. The file in the staged directory may be renamed again.
    """
    first = address.first.path
    os.setxattr(address.path, "user.journalfs.address-full-policy", b"FAIL")
    os.setxattr(address.path, "user.journalfs.max-size-messages", b"1")
    (first / "in.txt").write_text("full\n")
    staged, target = first / "_job" / "job.txt", first / "job.txt"
    staged.parent.mkdir()
    staged.write_text("1\n2\n")
    assert errno_of(staged.rename, target) == errno.EDQUOT
    (first / ".all.jsonl").unlink()
    assert errno_of(shutil.copyfile, staged, target) == errno.EDQUOT
    assert bodies(address.first) == []
    staged.rename(target)
    assert bodies(address.first) == ["1", "2"]
    (first / ".all.jsonl").unlink()
    target.write_text("3\n")
    assert bodies(address.first) == ["3"]
