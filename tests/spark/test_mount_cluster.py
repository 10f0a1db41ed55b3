"""Executors in processes of their own, of another user than the mount's: nothing is shared but the mount."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mount.conftest import until
from tests.mounting import MountedStore, mounted_for_writing
from tests.spark.drivers import CLUSTER_S_MAX, said_by, spark_home
from tests.spark.mount_job import SPLIT_BYTES
from tests.writing.conftest import new_store

NOBODY = 65534
MESSAGES = 2000
AS_NOBODY = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    # The interpreter may lie in somebody's home. On the mount this lets nobody in, and nobody write.
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


def as_nobody(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*AS_NOBODY[:4], "sh", "-c", command],
        cwd="/",
        env={"folder": str(folder), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that other users can get at, unlike pytest's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path


def filled(mount: MountedStore) -> None:
    for name in ("one", "two"):
        (mount.path / "from" / name).mkdir(parents=True)
        lines = "".join(f"{name} {number}\n" for number in range(MESSAGES))
        (mount.path / "from" / name / "in.txt").write_text(lines)
    tails = [mount.path / "from" / name / "_tail.jsonl" for name in ("one", "two")]
    until(lambda: not any(tail.stat().st_size for tail in tails), "the tails become parts")
    for version in ("1", "2"):
        (mount.path / "to" / f"version-{version}").mkdir(parents=True)


@needs_root
@pytest.mark.rule("S-40")
@pytest.mark.parametrize(
    ("options", "reads", "writes"),
    [((), False, False), (("allow_other",), True, False), (("allow_other", f"uid={NOBODY}"), True, True)],
)
def test_what_another_user_may_do(shared: Path, options: tuple[str, ...], reads: bool, writes: bool) -> None:
    words = ["-o", ",".join(options)] if options else []
    with mounted_for_writing(new_store(shared / "store"), shared / "mnt", *words) as mount:
        filled(mount)
        queue = mount.path / "to" / "version-1"
        assert (as_nobody('ls "$folder/.all.jsonl"', mount.path / "from" / "one").returncode == 0) is reads
        job = 'mkdir "$folder/_job" && chmod 755 "$folder/_job" && echo x > "$folder/_job/a.txt"'
        said = as_nobody(f'{job} && mv "$folder/_job" "$folder/job"', queue)
        assert (said.returncode == 0) is writes, said.stderr
        assert "denied" in said.stderr or writes
        assert len(mount.queue("to", "version-1").lines()) == writes


@needs_root
@pytest.mark.long
@pytest.mark.rule("S-40")
@pytest.mark.timeout(CLUSTER_S_MAX + 60)
def test_executors_of_another_user_read_and_write(shared: Path) -> None:
    work = shared / "work"
    work.mkdir()
    home = spark_home(shared / "home")
    for path in (work, home):
        os.chown(path, NOBODY, NOBODY)
    words = ("-o", f"allow_other,uid={NOBODY},gid={NOBODY}")
    with mounted_for_writing(new_store(shared / "store"), shared / "mnt", *words) as mount:
        filled(mount)
        size = sum(part.stat().st_size for part in mount.path.glob("from/*/part-*"))
        said = said_by(
            [
                *AS_NOBODY,
                sys.executable,
                "-m",
                "tests.spark.mount_job",
                "cluster",
                str(mount.path),
                str(work),
            ],
            HOME=str(work),
            PYTHONDONTWRITEBYTECODE="1",
            SPARK_HOME=str(home),
        )
        assert said["user"] == NOBODY
        assert said["tasks"] >= size // SPLIT_BYTES > 4
        every = [[name, f"{name} {number}", 1] for name in ("one", "two") for number in range(MESSAGES)]
        assert said["read"] == sorted(every)
        assert said["files"] == MESSAGES
        wanted = sorted(f"one {number}" for number in range(MESSAGES))
        for version in ("1", "2"):
            queue = mount.queue("to", f"version-{version}")
            assert sorted(line["body"] for line in queue.lines()) == wanted
            assert not (queue.path / "_temporary").exists()
