"""`.take` with the tools that people give lines to, and both streams where requests take the slow way."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.mount.conftest import until
from tests.mounting import COMMAND_S_MAX
from tests.writing.conftest import Address, Remount, bodies, errno_of, shell
from tests.writing.streams import next_line, reads
from tests.writing.test_taking import counts, held, publish, running, take

TEXTS = tuple(f"text {number}" for number in range(12))
EACH_LINE = """
import json, sys
with open(sys.argv[1]) as lines:
    for line in lines:
        print(json.loads(line)["body"], flush=True)
"""
RAW = """
import json, os, sys
stream = os.open(sys.argv[1], os.O_RDONLY)
while line := os.read(stream, 65536):
    print(json.loads(line)["body"], flush=True)
"""


@contextmanager
def at_work(*command: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A command that is ended with all that it started."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.rule("S-117", "S-120")
@pytest.mark.parametrize(
    "command",
    [
        ("bash", "-c", "jq --unbuffered -r .body < $0"),
        ("jq", "--unbuffered", "-r", ".body"),
        ("bash", "-c", """xargs -d '\\n' -n 1 sh -c 'echo "$1" | jq -r .body' sh < $0"""),
        ("bash", "-c", """xargs -d '\\n' -I {} sh -c 'echo "$1" | jq -r .body' sh {} < $0"""),
        ("bash", "-c", """while read -r line; do jq -r .body <<< "$line"; done < $0"""),
        ("sed", "-u", 's/.*"body":"\\(.*\\)"}/\\1/'),
        (sys.executable, "-c", EACH_LINE),
        (sys.executable, "-c", RAW),
    ],
)
def test_each_message_is_worked_on_once(address: Address, command: tuple[str, ...]) -> None:
    """A tool that waits for more has come back for it: so all before is acknowledged."""
    publish(address.first, *TEXTS[:6])
    with at_work(*command, take(address.first)) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline() for _ in range(6)]
        publish(address.first, *TEXTS[6:])
        seen += [process.stdout.readline() for _ in range(6)]
        assert seen == [f"{text}\n" for text in TEXTS]
        until(lambda: bodies(address.first) == [], "all is acknowledged")
        assert held(address.first) == 0


@pytest.mark.rule("S-120")
def test_xargs_that_gives_up_gives_back_what_it_read_last(address: Address) -> None:
    """It reads on while its command runs, and so has come back for the next by then."""
    publish(address.first, "one", "bad", "three")
    script = """case $1 in *bad*) exit 255;; esac; echo "$1" """
    done = subprocess.run(
        ["bash", "-c", f"xargs -d '\\n' -n 1 sh -c '{script}' sh < {take(address.first)}"],
        capture_output=True,
        text=True,
        timeout=COMMAND_S_MAX,
        check=False,
    )
    assert done.returncode == 124
    assert json.loads(done.stdout)["body"] == "one"
    until(lambda: held(address.first) == 0, "nobody has a message")
    assert bodies(address.first) == ["three"]
    assert counts(address.first) == [1]


@pytest.mark.rule("S-117")
def test_many_hands_of_xargs_share_the_work(address: Address) -> None:
    publish(address.first, *TEXTS)
    output = address.mount.path.parent / f"{address.name}.out"
    hands = f"""xargs -d '\\n' -n 1 -P 4 sh -c 'echo "$1" >> {output}' sh < {take(address.first)}"""
    with at_work("bash", "-c", hands):
        until(lambda: _lines(output) == len(TEXTS) and bodies(address.first) == [], "all is done")
    seen = [json.loads(line)["body"] for line in output.read_text().splitlines()]
    assert sorted(seen) == sorted(TEXTS)


@pytest.mark.rule("S-117", "S-120")
def test_hands_and_loops_compete_while_messages_come(address: Address) -> None:
    """Two `xargs -P 4` and three loops on one stream: every message is worked on by one of them, once."""
    output = address.mount.path.parent / f"{address.name}.out"
    hands = f"""xargs -d '\\n' -n 1 -P 4 sh -c 'echo "$1" >> {output}' sh < {take(address.first)}"""
    loop = f"""while read -r line; do echo "$line" >> {output}; done < {take(address.first)}"""
    texts = [f"text {number}" for number in range(150)]
    with ExitStack() as stack:
        for script in (hands, hands, loop, loop, loop):
            stack.enter_context(at_work("bash", "-c", script))
        for begin in range(0, len(texts), 10):
            publish(address.first, *texts[begin : begin + 10])
        until(lambda: _lines(output) >= len(texts) and bodies(address.first) == [], "all is done")
    seen = [json.loads(line)["body"] for line in output.read_text().splitlines()]
    assert sorted(seen) == sorted(texts)


def _lines(output: Path) -> int:
    return output.read_bytes().count(b"\n") if output.exists() else 0


@pytest.mark.rule("S-116", "S-117", "S-123")
@pytest.mark.parametrize("name", [".take", ".follow"])
def test_streams_with_the_stock_loop(remount: Remount, name: str) -> None:
    mount = remount("loop=stock")
    assert mount.control("mount.json")["loop"] == "stock"
    (mount.path / "a").mkdir()
    (mount.path / "a" / "q").mkdir()
    queue = mount.queue("a", "q")
    with running("cat", queue.path / name, cwd=mount.path) as process:
        until(lambda: reads(process.pid, queue.path / name), "it waits in a read")
        for text in ("one", "two"):
            publish(queue, text)
            assert json.loads(next_line(process))["body"] == text
        until(lambda: reads(process.pid, queue.path / name) and held(queue) == 0, "it came back for more")
        process.send_signal(signal.SIGINT)
        assert process.wait(COMMAND_S_MAX) == -signal.SIGINT
    until(lambda: held(queue) == 0, "nobody has a message")
    assert bodies(queue) == ([] if name == ".take" else ["one", "two"])


@pytest.mark.rule("S-120")
def test_a_reader_that_is_killed_with_the_stock_loop(remount: Remount) -> None:
    mount = remount("loop=stock")
    (mount.path / "a").mkdir()
    (mount.path / "a" / "q").mkdir()
    queue = mount.queue("a", "q")
    publish(queue, "one", "two")
    shell(f"exec 3< {take(queue)}; read -r line <&3; kill -KILL $$", mount.path, succeeds=False)
    until(lambda: held(queue) == 0, "it is given back")
    assert bodies(queue) == ["one", "two"]
    assert counts(queue) == [1]
    assert '"body":"one"' in shell(f"head -n 1 {take(queue)}", mount.path)
    until(lambda: bodies(queue) == ["two"], "it is acknowledged")


@pytest.mark.rule("S-41")
@pytest.mark.parametrize("name", [".take", ".follow"])
def test_what_is_copied_is_what_was_looked_at(address: Address, name: str) -> None:
    stream, copy = address.first.path / name, address.mount.path.parent / f"{address.name}.copy"
    number = stream.stat().st_ino
    with stream.open():
        assert stream.stat().st_ino != number, "each opening has its own"
    until(lambda: stream.stat().st_ino == number, "nobody has it open")
    with running("cp", stream, copy, cwd=address.path) as process:
        until(lambda: reads(process.pid, stream), "it waits in a read")
        publish(address.first, "one")
        until(lambda: copy.exists() and b'"body":"one"' in copy.read_bytes(), "it is copied")
        process.terminate()
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.rule("S-120")
def test_who_opens_again_what_it_has_has_consumed(address: Address) -> None:
    """`/dev/stdin` is another opening of the same file, by the same process."""
    publish(address.first, "one", "two", "three")
    for text in ("one", "two"):
        output = shell(f"head -n 1 /dev/stdin < {take(address.first)}", address.path)
        assert json.loads(output)["body"] == text
    until(lambda: held(address.first) == 0, "nobody has a message")
    assert bodies(address.first) == ["three"]
    assert counts(address.first) == []


@pytest.mark.rule("S-120")
def test_threads_of_one_process_are_told_apart(address: Address) -> None:
    """They may have looked the name up at the same moment; each ends by itself."""
    publish(address.first, *TEXTS)
    script = """
import os, sys, threading
together = threading.Barrier(4)
def read():
    for _ in range(3):
        together.wait()
        with open(sys.argv[1]) as lines:
            lines.readline()
threads = [threading.Thread(target=read) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
    with running(sys.executable, "-c", script, take(address.first), cwd=address.path) as process:
        assert process.wait(COMMAND_S_MAX) == 0
    until(lambda: held(address.first) == 0, "nobody has a message")
    assert bodies(address.first) == []
    assert counts(address.first) == []


@pytest.mark.rule("S-135")
@pytest.mark.parametrize("name", [".take", ".follow"])
def test_readers_have_no_priority(address: Address, name: str) -> None:
    stream = address.first.path / name
    assert errno_of(os.setxattr, stream, "user.journalfs.consumer-priority", b"5") == errno.EPERM
    assert "no priorities" in address.refusals()[-1][1]
