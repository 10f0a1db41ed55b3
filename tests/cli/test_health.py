"""`journalfs health`: exit codes and words of monitoring plugins."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.mounting import COMMAND_S_MAX, JOURNALFS, journalfs


def test_limits_of_a_queue(tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert journalfs("create", store).returncode == 0
    put: list[str | Path] = [JOURNALFS, "put", store, "DLQ::DLQ"]
    subprocess.run(put, input=b"one\ntwo\n", check=True, timeout=COMMAND_S_MAX)
    for words, code, said in (
        (["DLQ::DLQ"], 0, "OK - DLQ::DLQ has 2 messages, the oldest is "),
        (["DLQ", "--max", "2", "--oldest", "1h"], 0, "OK - DLQ::DLQ has 2 messages"),
        (["DLQ::DLQ", "--max", "1"], 2, "CRITICAL - DLQ::DLQ has 2 messages (at most 1), "),
        (["ExpiryQueue", "--max", "0", "--oldest", "0s"], 0, "OK - ExpiryQueue::ExpiryQueue has 0 messages"),
        (["nope::q"], 3, "UNKNOWN - "),
        (["DLQ", "--oldest", "soon"], 3, "UNKNOWN - "),
    ):
        done = journalfs("health", store, *words)
        assert (done.returncode, done.stdout[: len(said)]) == (code, said), done.stdout + done.stderr
        assert done.stdout.count("\n") == 1
    data = journalfs("health", store, "DLQ::DLQ", "--max", "1").stdout.rpartition(" | ")[2]
    assert data.startswith("'DLQ::DLQ messages'=2;;1;0 'DLQ::DLQ oldest'=")
    assert journalfs("health", tmp_path / "nothing", "a").returncode == 3
