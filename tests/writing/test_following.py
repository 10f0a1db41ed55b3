"""`.follow` with the tools that people follow files with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.mount.conftest import until
from tests.mounting import COMMAND_S_MAX, mounted
from tests.writing.conftest import Address, Remount, bodies, write_at_once
from tests.writing.streams import next_line, reads
from tests.writing.test_taking import publish, running


@pytest.mark.rule("S-116")
@pytest.mark.parametrize(
    "command",
    [
        ("cat",),
        ("jq", "--unbuffered", "-c", "."),
        ("head", "-n", "3"),
        ("grep", "--line-buffered", "queue"),
        ("sed", "-u", "p;d"),
        ("bash", "-c", 'while read -r line; do echo "$line"; done < "$0"'),
        ("dash", "-c", 'while read -r line; do echo "$line"; done < "$0"'),
    ],
)
def test_what_comes_is_seen_as_it_comes(address: Address, command: tuple[str, ...]) -> None:
    publish(address.first, "before")
    follow = address.first.path / ".follow"
    with running(*command, follow, cwd=address.path) as process:
        until(lambda: reads(process.pid, follow), "it waits in a read")
        for text in ("one", "two", "three"):
            publish(address.first, text)
            if command[0] != "head":
                assert json.loads(next_line(process))["body"] == text
        if command[0] == "head":
            seen = [json.loads(next_line(process))["body"] for _ in range(3)]
            assert seen == ["one", "two", "three"]
    assert bodies(address.first) == ["before", "one", "two", "three"]


@pytest.mark.rule("S-116")
@pytest.mark.parametrize("command", ["exec cat {follow} > copy.jsonl", "exec cp {follow} copy.jsonl"])
def test_what_comes_is_copied_within_the_mount(address: Address, command: str) -> None:
    """Where the kernel copies for them, it would take the first line for all there is."""
    follow = address.first.path / ".follow"
    with running("bash", "-c", command.format(follow=follow), cwd=address.second.path) as process:
        until(lambda: reads(process.pid, follow), "it waits in a read")
        for count, text in enumerate(("one", "two", "three"), 1):
            publish(address.first, text)
            until(lambda count=count: len(bodies(address.second)) == count, "a copy")  # type: ignore[misc]
    assert bodies(address.second) == ["one", "two", "three"]


@pytest.mark.rule("S-116")
@pytest.mark.parametrize("words", [("-f",), ("-n", "0", "-f"), ("-F",), ("-s", "0.1", "-f")])
def test_tail_follows(address: Address, words: tuple[str, ...]) -> None:
    publish(address.first, "before")
    with running("tail", *words, address.first.path / ".follow", cwd=address.path) as process:
        until(lambda: "nanosleep" in _where(process.pid) or _sleeps(process.pid), "it waits for more")
        for text in ("one", "two", "three"):
            publish(address.first, text, f"{text} too")
            assert json.loads(next_line(process))["body"] == text
            assert json.loads(next_line(process))["body"] == f"{text} too"
        process.terminate()
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.rule("S-116")
@pytest.mark.parametrize("words", [("-f",), ("-n", "0", "-f"), ("-n", "5", "-f")])
def test_tail_follows_where_a_line_came_before_it_looked(address: Address, words: tuple[str, ...]) -> None:
    """As it may between its opening of the file and its first look at it."""
    opened = os.open(address.first.path / ".follow", os.O_RDONLY)
    try:
        publish(address.first, "one")
        with running("tail", *words, "-", cwd=address.path, stdin=opened) as process:
            for number, text in enumerate(("one", "two", "three")):
                if number:
                    publish(address.first, text)
                assert json.loads(next_line(process))["body"] == text
            process.terminate()
            assert process.stderr is not None
            assert process.stderr.read() == ""
    finally:
        os.close(opened)


def _where(pid: int) -> str:
    return Path(f"/proc/{pid}/wchan").read_text()


def _sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/syscall").read_text().split()[0] in ("35", "230")


@pytest.mark.rule("S-116")
def test_a_selection_is_followed(address: Address) -> None:
    follow = address.first.path / ".where" / "JMSPriority = 9" / ".follow"
    with running("head", "-n", "1", follow, cwd=address.path) as process:
        until(lambda: reads(process.pid, follow), "it waits in a read")
        lines = [b'{"type":"text","priority":%d,"body":"%d"}\n' % (number, number) for number in (1, 9)]
        write_at_once(address.first.path / "in.jsonl", lines)
        output, _ = process.communicate(timeout=COMMAND_S_MAX)
    assert json.loads(output)["body"] == "9"


AT_ONCE = """
import os, sys, threading
together = threading.Barrier(8)
def ask():
    for _ in range(20):
        together.wait()
        stream = os.open(sys.argv[1], os.O_RDONLY)
        first = os.fstat(stream)
        os.write(1, b"%d %d %d\\n" % (first.st_ino, first.st_size, os.lseek(stream, 0, os.SEEK_END)))
        together.wait()
        os.close(stream)
threads = [threading.Thread(target=ask) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.rule("S-41", "S-116")
def test_who_opens_it_at_the_same_moment_has_one_of_its_own(address: Address) -> None:
    stream = address.first.path / ".follow"
    with running(sys.executable, "-c", AT_ONCE, stream, cwd=address.path) as process:
        output, errors = process.communicate(timeout=COMMAND_S_MAX)
    assert errors == ""
    told = [tuple(map(int, line.split())) for line in output.splitlines()]
    assert len(told) == 160
    assert all(first == 0 and then > 0 for _, first, then in told)
    for begin in range(0, len(told), 8):
        assert len({number for number, _, _ in told[begin : begin + 8]}) == 8


REOPENS = """
import os, sys
path = f"/proc/self/fd/{os.open(sys.argv[1], os.O_PATH)}"
print("found", flush=True)
sys.stdin.readline()
stream = os.open(path, os.O_RDONLY)
print("opened", flush=True)
sys.stdin.readline()
print(os.fstat(stream).st_size, os.fstat(stream).st_size > 0, flush=True)
sys.stdin.readline()
"""


@pytest.mark.rule("S-116")
def test_processes_that_found_it_before_one_opened_it(address: Address) -> None:
    """They have no name by which to find another one, and so share the number."""
    command = (sys.executable, "-c", REOPENS, address.first.path / ".follow")
    with ExitStack() as stack:
        processes = [
            stack.enter_context(running(*command, cwd=address.path, stdin=subprocess.PIPE)) for _ in range(2)
        ]
        for word in ("found", "opened", "0 True"):
            assert [next_line(process) for process in processes] == [f"{word}\n"] * 2
            for process in processes:
                _let_go_on(process)


def _let_go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    os.write(process.stdin.fileno(), b"\n")


@pytest.mark.rule("S-116")
def test_python_follows_with_open(address: Address) -> None:
    with (address.first.path / ".follow").open() as lines:
        publish(address.first, "one", "two")
        assert [json.loads(lines.readline())["body"] for _ in range(2)] == ["one", "two"]


@pytest.mark.rule("S-116")
def test_a_queue_that_goes_ends_it(address: Address) -> None:
    follow = address.first.path / ".follow"
    with running("cat", follow, cwd=address.path) as process:
        until(lambda: reads(process.pid, follow), "it waits in a read")
        address.first.path.rmdir()
        assert process.wait(COMMAND_S_MAX) == 0


@pytest.mark.rule("S-116")
def test_on_a_mount_that_only_reads(remount: Remount, own_store: Path, tmp_path: Path) -> None:
    writing = remount()
    (writing.path / "a").mkdir()
    (writing.path / "a" / "q").mkdir()
    publish(writing.queue("a", "q"), "before")
    with mounted(own_store, tmp_path / "reading") as reading:
        follow = reading.queue("a", "q").path / ".follow"
        with running("head", "-n", "1", follow, cwd=tmp_path) as process:
            until(lambda: reads(process.pid, follow), "it waits in a read")
            publish(writing.queue("a", "q"), "one")
            output, _ = process.communicate(timeout=COMMAND_S_MAX)
        assert json.loads(output)["body"] == "one"
        with pytest.raises(OSError, match="Read-only"):
            (reading.queue("a", "q").path / ".take").open()
        subprocess.run(["umount", reading.path], check=True)
