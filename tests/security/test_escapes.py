"""What a sender may name is printed, and is no command to a terminal."""

from __future__ import annotations

import ast
import logging
from pathlib import Path

import pytest

from journalfs.engine.waiting import Slices
from journalfs.showing import log_lines, printable
from journalfs_mount.kernel.xattrs import attribute_name, listed_names
from tests.differential.encode import record
from tests.mounting import journalfs
from tests.store.appending import ADD
from tests.store.conftest import LittleStore
from tests.tidy.sources import ROOT
from tests.tools import store_bytes
from tests.writing.conftest import new_store

COMMAND = "\x1b]0;owned\x07\x9b31m\r\n"


def test_what_is_printed_has_no_control_characters() -> None:
    assert printable(f"a{COMMAND}\udcffb\u00fc") == "a\\x1b]0;owned\\x07\\x9b31m\\x0d\\x0a\\xffb\u00fc"
    assert printable("plain \u00fc") == "plain \u00fc"


async def test_labels_of_metrics_are_escaped(little_store: LittleStore) -> None:
    body = store_bytes.queue_binding(f'q{COMMAND}"\\', "work", 0)
    little_store.bindings.append(record(ADD, 1, record_id=77, user_type=21, body=body))
    store = little_store.open()
    text = (await store.metrics.text(Slices())).decode()
    assert not any(ord(one) < 32 or 127 <= ord(one) < 160 for one in text.replace("\n", ""))
    assert 'queue="q\\\\x1b]0;owned\\\\x07\\\\x9b31m\\\\x0d\\\\x0a\\"\\\\"' in text


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        (f"user.property.a{COMMAND}", b"user.property.a%1B]0;owned%07%9B31m%0D%0A"),
        ("user.property.100%25", b"user.property.100%2525"),
        ("user.property.100%AB%", b"user.property.100%AB%"),
        ("user.property.\u00fc", "user.property.\u00fc".encode()),
    ],
)
def test_names_of_attributes_are_escaped_and_found(name: str, listed: bytes) -> None:
    assert listed_names({name: b"value"}) == [listed]
    assert attribute_name(listed) == name
    assert attribute_name(name.encode()) in {name, name.replace("%25", "%")}


def test_what_is_logged_is_a_line_of_text() -> None:
    logged = logging.LogRecord("x", logging.INFO, "f", 1, "queue %s", (COMMAND,), None)
    assert log_lines("journalfs: %(message)s").format(logged) == f"journalfs: queue {printable(COMMAND)}"


ANSWERS = ("help.py", "completion.py", "version.py", "main.py")
"""They say nothing of a store."""


def test_commands_say_names_in_one_way() -> None:
    """`say` escapes them; so do tables, and what a failure is told by."""
    for path in (ROOT / "journalfs/cli").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())) if path.name not in ANSWERS else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "click.echo"):
                said = ast.unparse(node.args[0])
                assert "printable" in said, f"{path.name}:{node.lineno}"


def test_names_with_commands_and_half_characters(tmp_path: Path) -> None:
    """In what differs, in failures, and through every kind of file."""
    store = new_store(tmp_path / "store")
    lines = tmp_path / "in.jsonl"
    half = r"q\ud800\u001b"
    lines.write_text(
        f'{{"queue":"{half}","type":"text","body":"b\\udc00","properties":{{"p\\ud800":"v\\udfff"}}}}\n'
    )
    assert journalfs("import", lines, store).returncode == 0
    for kind in ("jsonl", "parquet"):
        out, again = tmp_path / f"out.{kind}", new_store(tmp_path / kind)
        assert journalfs("export", "--format", kind, store, out).returncode == 0
        assert journalfs("import", out, again).returncode == 0
        assert journalfs("diff", store, again).stdout == ""
    done = journalfs("diff", store, new_store(tmp_path / "empty"))
    assert done.stdout.splitlines()[0] == r"lost q\ud800\x1b::q\ud800\x1b"
    lines.write_text(r'{"queue":"a::\u001b[2Jb","type":"text","body":""}')
    done = journalfs("import", lines, store)
    assert done.returncode == 1
    assert r"a::\x1b[2Jb" in done.stderr
    assert "\x1b" not in done.stderr
