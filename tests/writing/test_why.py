"""`journalfs why`: what it says of a refusal, and what to do, by the reason."""

from __future__ import annotations

import ast
import errno
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from journalfs.advice import BY_REASON, advice
from journalfs.cli import why
from journalfs.clock import StoppedClock
from tests.cli.running import journalfs as in_process
from tests.mount.conftest import until
from tests.mounting import journalfs, mounted_for_writing
from tests.tidy.sources import python_sources
from tests.writing.conftest import Address, errno_of, new_store, shell


def told(path: Path, *options: str) -> str:
    return journalfs("why", path, *options).stdout


@pytest.mark.rule("S-187")
@pytest.mark.parametrize(
    ("command", "said", "do"),
    [
        ("ln -s a QUEUE/b", "there are no links", "cp"),
        ("mv QUEUE OTHER-NAME", "keep their names", "mkdir a new one"),
        ("cp NO-JSON QUEUE/in.jsonl", "nothing of this write was published", "mend that line"),
        ("chmod 600 QUEUE/.messages/*", "have no mode", "--no-preserve"),
        ("rmdir QUEUE/.messages", "always stays", "rm DIR/.all.jsonl"),
        ("mkdir QUEUE/folder", "no directories", "mkdir it in the address"),
        ("rmdir QUEUE", "it holds messages", "rm -r QUEUE"),
        ("echo surely=1 > QUEUE/.settings", "", "lists the settings"),
    ],
)
def test_the_advice_is_of_the_reason(
    address: Address, tmp_path: Path, command: str, said: str, do: str
) -> None:
    (address.first.path / "one.txt").write_text("one\n")
    (tmp_path / "no-json").write_text("no envelope\n")
    places = {"QUEUE": address.first.path, "NO-JSON": tmp_path / "no-json", "OTHER-NAME": address.path / "x"}
    typed = re.sub("OTHER-NAME|NO-JSON|QUEUE", lambda word: str(places[word[0]]), command)
    shell(typed, tmp_path, succeeds=False)
    last = json.loads(told(address.path, "-n", "1", "--json"))
    assert said in last["reason"]
    assert do in last["do"]


def reasons() -> Iterator[tuple[str, str]]:
    """(place, text) of each reason that the mount's sources spell out; holes of it are `9`."""
    trees = {source.name: source.tree for source in python_sources() if source.name.startswith("mount/")}
    constants = {
        target.id: node.value
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }

    def texts(node: ast.expr) -> Iterator[str]:
        if isinstance(node, ast.Constant):
            yield str(node.value)
        elif isinstance(node, ast.JoinedStr):
            yield "".join(next(texts(one), "9") for one in node.values)
        elif isinstance(node, ast.FormattedValue):
            yield from texts(node.value)
        elif isinstance(node, ast.IfExp):
            yield from texts(node.body)
            yield from texts(node.orelse)
        elif isinstance(node, ast.Name) and node.id in constants:
            yield from texts(constants[node.id])

    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Refused":
                yield from ((f"{name}:{node.lineno}", text) for text in texts(node.args[1]))


def test_every_reason_has_its_own_advice() -> None:
    """Advice for an errno is for reasons that come from the system: EPERM alone has thirty causes here."""
    found = list(reasons())
    assert len(found) > 50
    without = [one for one in found if not any(re.search(pattern, one[1]) for pattern, _ in BY_REASON)]
    assert not without


def test_no_advice_leads_back_to_the_refusal() -> None:
    said = [do for _, do in BY_REASON] + [advice(name, "") for name in errno.errorcode.values()]
    assert not [do for do in said if re.search(r"see the (?:event|reason|path|message)", do)]


@pytest.mark.rule("S-187", "S-32")
def test_a_wrong_selector_is_a_refusal(address: Address) -> None:
    place = address.first.path / ".where" / "region = 'EU"
    for _ in range(3):
        assert errno_of(os.listdir, place) == errno.EINVAL
    last = json.loads(told(address.path, "-n", "1", "--json"))
    assert last["path"].endswith("/.where/region = 'EU")
    assert "single quotes" in last["do"]
    assert len(address.refusals()) == 1


@pytest.mark.rule("S-187")
def test_a_write_to_an_unknown_address_is_a_refusal(address: Address) -> None:
    unknown = f"{address.name}s"
    said = shell(f"echo lost > {unknown}/in.txt", address.mount.path, succeeds=False)
    assert "No such file or directory" in said
    last = json.loads(told(address.path, "-n", "1", "--json"))
    assert last["reason"] == f"there is no address {unknown}; did you mean {address.name}?"
    assert last["do"].startswith("mkdir -p ")
    (address.mount.path / unknown).mkdir()
    (address.mount.path / unknown).rmdir()
    assert unknown not in told(address.path, "-n", "1")


@pytest.mark.rule("S-187")
def test_what_is_long_past_is_said_to_be(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    assert errno_of((address.first.path / ".messages").rmdir)
    now = in_process("why", address.path, "-n", "1")
    assert "minute" not in now.stderr
    later_ms = json.loads(told(address.path, "-n", "1", "--json"))["time_ms"] + 3 * 3_600_000
    monkeypatch.setattr(why, "SystemClock", lambda: StoppedClock(later_ms))
    later = in_process("why", address.path, "-n", "1")
    assert "nothing in the last minute; the last one was 3 hours ago:" in later.stderr
    assert later.stdout == now.stdout


@pytest.mark.rule("S-187")
def test_a_mount_without_its_process_is_told_as_one(tmp_path: Path) -> None:
    store = new_store(tmp_path / "store")
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        process = mount.process_id()
        os.kill(process, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{process}").exists(), "the mount's process is gone")
        said = told(mount.path)
        assert "Transport endpoint is not connected (ENOTCONN)" in said
        assert f"journalfs mount {store} {mount.path}" in said
        assert journalfs("mount", store, mount.path).returncode == 0


PRINTED = (
    ("echo x >> MNT/a/in.txt", "Transport endpoint is not connected", 1),
    ("cat MNT/a/b/.all.jsonl", "Transport endpoint is not connected", 1),
    ("ls MNT", "Transport endpoint is not connected", 2),
    ("for f in MNT/a/b/*.jsonl; do echo $f; done", "*.jsonl", 0),
    ("[ -e MNT/a ]", "", 1),
    ("mountpoint -q MNT", "", 1),
)
"""Rows of docs/operate/crashes.md: what is typed, what is printed, the exit code."""


def test_what_a_script_sees_of_a_killed_mount(tmp_path: Path) -> None:
    with mounted_for_writing(new_store(tmp_path / "store"), tmp_path / "mnt") as mount:
        (mount.path / "a" / "b").mkdir(parents=True)
        (mount.path / "a" / "in.txt").write_text("one\n")
        loop = "while read -r m; do echo got; done < MNT/a/b/.take; echo ends with $?"
        typed = loop.replace("MNT", str(mount.path))
        with subprocess.Popen(["bash", "-c", typed], stdout=PIPE, stderr=PIPE, text=True) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "got\n"
            os.kill(mount.process_id(), signal.SIGKILL)
            rest, error = reader.communicate()
        assert rest == "ends with 0\n"
        assert "Software caused connection abort" in error
        for command, printed, code in PRINTED:
            words = ["bash", "-c", command.replace("MNT", str(mount.path))]

            def is_so(words: list[str] = words, printed: str = printed, code: int = code) -> bool:
                done = subprocess.run(words, capture_output=True, text=True, check=False)
                return printed in done.stdout + done.stderr and done.returncode == code

            until(is_so, f"{command}: what the kernel knew of the mount is over")
        taken = journalfs("take", mount.path / "a/b", "--exec", "true")
        assert (taken.returncode, "not connected" in taken.stderr) == (2, True)
        assert journalfs("mount", tmp_path / "store", mount.path).returncode == 0
