"""Selectors that compare two names of which no message has either, such as `region = "EU"`."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.mounting import COMMAND_S_MAX, JOURNALFS, QueueOnDisk, journalfs
from tests.writing.conftest import Address, bodies, errno_of, write_at_once

FAULTY = ['region = "EU"', "NOT (a <> b)", 'nothing IS NULL AND region = "EU"', "a > b OR color = 'blue'"]


def publish(queue: QueueOnDisk) -> list[str]:
    lines = (b'{"type":"text","body":"%d","properties":{"color":"red"}}\n' % number for number in range(3))
    write_at_once(queue.path / "in.jsonl", [b"".join(lines)])
    return ["0", "1", "2"]


@pytest.mark.rule("S-374")
@pytest.mark.parametrize("selector", FAULTY)
def test_nothing_is_taken_away_by_it(address: Address, selector: str) -> None:
    queue = address.first
    there = publish(queue)
    chosen = queue.path / ".where" / selector
    for action in (
        (chosen / ".all.jsonl").unlink,
        lambda: (chosen / ".all.jsonl").rename(address.second.path / "all.jsonl"),
        lambda: chosen.rename(queue.path / ".redrive" / "x"),
        lambda: os.close(os.open(chosen / ".take", os.O_RDONLY | os.O_NONBLOCK)),
        lambda: os.close(os.open(chosen / ".where" / "color = 'red'" / ".take", os.O_RDWR | os.O_NONBLOCK)),
        (chosen / ".where" / "color = 'red'" / ".all.jsonl").unlink,
    ):
        # A rename gives EBADMSG: of EINVAL `mv` says that a directory is moved into itself.
        assert errno_of(action) in (errno.EINVAL, errno.EBADMSG)
    for name in os.listdir(chosen / ".messages"):
        assert errno_of((chosen / ".messages" / name).unlink) == errno.EINVAL
    assert (bodies(queue), len(bodies(address.second))) == (there, 0)
    assert any("text stands in single quotes" in reason for _, reason in address.refusals())


@pytest.mark.rule("S-374")
@pytest.mark.parametrize(
    "selector", ["color = other", "color = 'red'", "JMSPriority = wanted OR color = 'red'"]
)
def test_names_that_occur_are_compared(address: Address, selector: str) -> None:
    queue = address.first
    there = publish(queue)
    (queue.path / ".where" / selector / ".all.jsonl").unlink()
    assert bodies(queue) == ([] if "red" in selector else there)


@pytest.mark.rule("S-425")
def test_who_lists_or_reads_in_a_mount_is_warned_by_an_event(address: Address) -> None:
    queue = address.first
    publish(queue)
    chosen = queue.path / ".where" / FAULTY[0]
    assert len(os.listdir(chosen / ".messages")) == 3
    assert (chosen / ".all.jsonl").read_bytes().count(b"\n") == 3
    assert os.listdir(queue.path / ".where" / "color = 'red'" / ".messages")
    said = [one["message"] for one in address.mount.events() if one["event"] == "selector-names-unset"]
    said = [one for one in said if one.startswith(address.name)]
    assert len(said) == 1, "once for a selector of a queue"
    assert "text stands in single quotes: region = 'EU'" in said[0]


@pytest.mark.rule("S-426")
def test_status_of_a_selection_counts(address: Address) -> None:
    queue = address.first
    publish(queue)
    for selector, count in (("color = 'red'", 3), ("color = 'blue'", 0)):
        status = json.loads((queue.path / ".where" / selector / ".status").read_text())
        assert (status["messages"], status["selector"]) == (count, selector)
        assert (status["address"], status["queue"]) == (address.name, queue.path.name)
        size_bytes = (queue.path / ".where" / selector / ".all.jsonl").stat().st_size
        assert status["lineBytes"] == size_bytes
    write_at_once(queue.path / "in.txt", [b"blue?\n"])
    inner = queue.path / ".where" / "color IS NULL" / ".where" / "JMSPriority = 4" / ".status"
    assert json.loads(inner.read_text())["messages"] == 1
    assert ".status" not in os.listdir(queue.path / ".where" / "color = 'red'")


@pytest.mark.rule("S-374")
def test_commands_warn(tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert journalfs("create", store).returncode == 0
    line = b'{"type":"text","body":"x","properties":{"color":"red"}}\n'
    command: list[str | Path] = [JOURNALFS, "put", store, "DLQ::DLQ", "--as", "x.jsonl"]
    subprocess.run(command, input=line, check=True, timeout=COMMAND_S_MAX)
    for words in (["cat"], ["ls"]):
        for selector, warns in (('region = "EU"', True), ("region = 'EU'", False)):
            done = journalfs(*words, store, "DLQ::DLQ", "--where", selector)
            assert done.returncode == 0
            assert ("text stands in single quotes: region = 'EU'" in done.stderr) == warns, done.stderr
