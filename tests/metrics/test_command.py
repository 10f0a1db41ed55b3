"""`journalfs metrics` of a store, a mount and a database: printed, served, and written for node_exporter."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from journalfs.inspect.scrub_memory import Memory, ended_ms
from tests.mounting import COMMAND_S_MAX, JOURNALFS, journalfs, mounted_for_writing

Found = dict[tuple[str, ...], float]


def parsed(text: str) -> Found:
    """Values by name and labels, without the store."""
    return {
        (sample.name, *(value for name, value in sample.labels.items() if name != "store")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def put(store: Path | str, queue: str, *lines: str) -> None:
    words = [str(JOURNALFS), "put", str(store), queue]
    content = "".join(f"{line}\n" for line in lines).encode()
    subprocess.run(words, input=content, check=True, timeout=COMMAND_S_MAX)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    made = tmp_path / "store"
    assert journalfs("create", made).returncode == 0
    put(made, "DLQ::DLQ", "one", "two")
    return made


@contextmanager
def served(*words: str | Path) -> Iterator[str]:
    """The URL that the command says it answers at."""
    command = [str(JOURNALFS), "metrics", *map(str, words), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield process.stderr.readline().strip()
        finally:
            process.terminate()
            process.wait(COMMAND_S_MAX)


def scraped(url: str) -> Found:
    with urllib.request.urlopen(url, timeout=COMMAND_S_MAX) as answer:
        return parsed(answer.read().decode())


def test_of_a_store(store: Path) -> None:
    done = journalfs("metrics", store)
    assert done.returncode == 0, done.stderr
    found = parsed(done.stdout)
    assert found["journalfs_queue_messages", "DLQ", "DLQ"] == 2
    assert found["journalfs_queue_oldest_age_seconds", "DLQ", "DLQ"] >= 0
    assert found["journalfs_up",] == found["journalfs_read_only",] == found["journalfs_whole",] == 1
    assert found["journalfs_disk_free_bytes", "journal"] > 0
    assert found["journalfs_journal_files", "current"] == 1
    assert f'journalfs_up{{store="{store}"}} 1.0' in done.stdout


@pytest.mark.rule("S-420")
def test_few_queues_have_samples_of_their_own(store: Path) -> None:
    found = parsed(journalfs("metrics", store, "--queues", "1").stdout)
    depths = {key[1:]: value for key, value in found.items() if key[0] == "journalfs_queue_messages"}
    assert depths == {("DLQ", "DLQ"): 2, ("(others)", "(others)"): 0}


@pytest.mark.rule("S-421")
def test_a_mount_is_scraped_while_it_works(store: Path, tmp_path: Path) -> None:
    backups, state = tmp_path / "backups", tmp_path / "state"
    environment = {**os.environ, "XDG_STATE_HOME": str(state)}
    with mounted_for_writing(store, tmp_path / "mnt") as mounted, served(mounted.path) as url:
        first = scraped(url)
        assert first["journalfs_read_only",] == 0
        assert first["journalfs_queue_added_messages_total", "DLQ", "DLQ"] == 0
        (mounted.path / "DLQ/in.txt").write_text("three\nfour\n")
        for name in os.listdir(mounted.path / "DLQ/DLQ/.messages")[:1]:
            (mounted.path / "DLQ/DLQ/.messages" / name).unlink()
        with pytest.raises(OSError, match="not permitted"):
            (mounted.path / "DLQ/DLQ/.messages").rmdir()
        after = scraped(url)
        assert after["journalfs_queue_added_messages_total", "DLQ", "DLQ"] == 2
        assert after["journalfs_queue_acknowledged_messages_total", "DLQ", "DLQ"] == 1
        assert after["journalfs_queue_messages", "DLQ", "DLQ"] == 3
        assert sum(value for key, value in after.items() if key[0] == "journalfs_refused_total") >= 1
        assert after["journalfs_events_total", "refused"] >= 1
        assert after["journalfs_loop_lag_seconds", "max"] < COMMAND_S_MAX
        assert journalfs("backup", mounted.path, backups).returncode == 0
    assert journalfs("scrub", store, env=environment).returncode == 0
    found = parsed(journalfs("metrics", store, "--backup", backups, env=environment).stdout)
    assert found["journalfs_backup_timestamp_seconds", str(backups)] > 1.7e9
    assert found["journalfs_scrub_timestamp_seconds",] > 1.7e9


@pytest.mark.rule("S-421")
def test_a_store_that_is_not_there_is_told_and_read_once_it_is(tmp_path: Path) -> None:
    later = tmp_path / "later"
    with served(later) as url:
        assert scraped(url) == {("journalfs_up",): 0}
        assert journalfs("create", later).returncode == 0
        put(later, "DLQ::DLQ", "one")
        assert scraped(url)["journalfs_queue_messages", "DLQ", "DLQ"] == 1
        put(later, "DLQ::DLQ", "two")  # while it is read


def test_for_node_exporter(store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "textfiles"
    folder.mkdir()
    assert journalfs("metrics", store, "--textfile", folder).returncode == 0
    assert journalfs("metrics", tmp_path / "nothing", "--textfile", folder).returncode != 0
    files = sorted(folder.iterdir())
    assert [file.suffix for file in files] == [".prom", ".prom"], "one for each store, whole"
    assert {file.stat().st_mode & 0o777 for file in files} == {0o644}
    texts = "".join(file.read_text() for file in files)
    assert f'journalfs_up{{store="{store}"}} 1.0' in texts
    assert f'journalfs_up{{store="{tmp_path / "nothing"}"}} 0.0' in texts


def test_of_a_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rows.db"
    assert journalfs("create", url).returncode == 0
    put(url, "DLQ::DLQ", "one")
    done = journalfs("metrics", url)
    assert parsed(done.stdout)["journalfs_queue_messages", "DLQ", "DLQ"] == 1, done.stderr


def test_wrong_calls(store: Path, tmp_path: Path) -> None:
    for words in (
        ["--listen", "9713"],
        ["--listen", "localhost:http"],
        ["--listen", "a:1", "--textfile", "x"],
    ):
        done = journalfs("metrics", store, *words)
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "HOST:PORT" in journalfs("metrics", store, "--listen", ":9713").stderr


def test_without_the_library_it_says_what_to_install(store: Path) -> None:
    hidden = "import sys; sys.modules['prometheus_client'] = None\n"
    program = (
        f"{hidden}sys.argv[1:] = ['metrics', {str(store)!r}]\nfrom journalfs.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "pip install 'journalfs[metrics]'" in done.stderr


def test_a_scrub_at_work_has_no_end(tmp_path: Path) -> None:
    file = tmp_path / "memory.sqlite"
    assert ended_ms(file) is None
    memory = Memory(file)
    memory.ended()
    memory.close()
    assert (ended_ms(file) or 0) > 1.7e12
