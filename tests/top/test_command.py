"""`journalfs top` as it is called: printed, without its extra, and on a real terminal."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import journalfs
from tests.mounting import COMMAND_S_MAX, JOURNALFS
from tests.mounting import journalfs as command

LOOKS_MAX = 300


@pytest.fixture
def path(tmp_path: Path) -> Path:
    assert command("create", "--journal-type", "NIO", tmp_path / "store").returncode == 0
    with journalfs.open(tmp_path / "store", write=True) as store:
        queue = store.create("orders::billing")
        queue.publish("one")
        queue.publish("two", delay="1h")
    return tmp_path / "store"


@pytest.mark.rule("S-446")
def test_printed_once(path: Path) -> None:
    done = command("top", path, "--once", "--interval", "0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0].split("\t")[:2] == ["orders::billing", "2"]
    assert done.stdout.splitlines()[0].split("\t")[6] == "1", "one is due later"
    assert len(done.stdout.splitlines()) == 3
    done = command("top", path, "--json", "--interval", "0", "--limit", "1", "--sort", "bytes")
    (line,) = done.stdout.splitlines()
    facts = json.loads(line)
    assert (facts["queue"], facts["messages"], facts["dueLater"], facts["inPerSecond"]) == (
        "orders::billing", 2, 1, 0.0,
    )  # fmt: skip
    done = command("top", path, "--once", "--interval", "0", "--filter", "DLQ")
    assert [row.split("\t")[0] for row in done.stdout.splitlines()] == ["DLQ::DLQ"]


@pytest.mark.rule("S-446")
def test_without_its_extra(path: Path) -> None:
    """Printing needs no Textual; the screen says what to install."""
    program = "import sys; sys.modules['textual'] = None; from journalfs.cli.main import main; main()"

    def run(*words: str, terminal: bool = False) -> subprocess.CompletedProcess[str]:
        with_it = (
            f"sys.stdin.isatty = sys.stdout.isatty = sys.stderr.isatty = lambda: True; {program}"
            if terminal
            else program
        )
        return subprocess.run(
            [sys.executable, "-c", f"import sys; {with_it}", "top", str(path), *words],
            capture_output=True, text=True, check=False, timeout=COMMAND_S_MAX,
        )  # fmt: skip

    assert run("--once", "--interval", "0").stdout.startswith("orders::billing\t2")
    assert "needs a terminal; --once prints a table" in run().stderr
    done = run(terminal=True)
    assert (done.returncode, "pip install 'journalfs[top]'" in done.stderr) == (8, True), done.stderr


@contextmanager
def terminal(folder: Path, *words: str | Path) -> Iterator[list[str]]:
    """A command on a terminal of its own: tmux, with the words that reach it."""
    (folder / "tmux.conf").write_text("set-option -g remain-on-exit on\n")
    socket = ["tmux", "-f", str(folder / "tmux.conf"), "-S", str(folder / "tmux")]
    line = " ".join(f"'{word}'" for word in words)
    subprocess.run([*socket, "new-session", "-d", "-x", "120", "-y", "30", line], check=True, timeout=60)
    try:
        yield socket
    finally:
        subprocess.run([*socket, "kill-server"], check=False, capture_output=True, timeout=60)


def until_on_screen(tmux: list[str], *texts: str) -> None:
    """Wait until all of that is on the screen, which is drawn in pieces."""
    shown = ""
    for _ in range(LOOKS_MAX):
        done = subprocess.run(
            [*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=False, timeout=60
        )
        shown = done.stdout
        if all(text in shown for text in texts):
            return
        subprocess.run([*tmux, "wait-for", "-L", "pause"], check=False, timeout=60)
        subprocess.run([*tmux, "wait-for", "-U", "pause"], check=False, timeout=60)
    raise AssertionError(f"not all of {texts} on the screen:\n{shown}")


@pytest.mark.long
@pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux")
def test_on_a_real_terminal(path: Path, tmp_path: Path) -> None:
    with terminal(tmp_path, JOURNALFS, "top", path) as tmux:
        until_on_screen(tmux, "orders::billing", "read only")
        subprocess.run([*tmux, "send-keys", "Enter"], check=True, timeout=60)
        until_on_screen(tmux, "orders::billing: 2 messages")
        subprocess.run([*tmux, "send-keys", "Escape"], check=True, timeout=60)
        until_on_screen(tmux, "2 Dead letters")
        subprocess.run([*tmux, "send-keys", "q"], check=True, timeout=60)
