"""Names that no broker could use, texts that no encoding has, and queues whose names are lost."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.mounting import MountedStore, mounted_for_writing
from tests.writing.conftest import Address, bodies, errno_of, new_store, shell


@pytest.mark.rule("S-141")
@pytest.mark.parametrize("name", ["x::y", "::", "x::", "::y", "x:::y"])
def test_a_name_in_which_two_would_be_found(mount: MountedStore, address: Address, name: str) -> None:
    assert errno_of(os.mkdir, address.path / name) == errno.EINVAL
    assert errno_of(os.mkdir, mount.path / name) == errno.EINVAL
    ((what, reason),) = address.refusals()
    assert what == f"{name}: EINVAL"
    assert "no broker finds an address or queue with '::' in its name" in reason
    assert name not in [*os.listdir(address.path), *os.listdir(mount.path)]


@pytest.mark.rule("S-141")
def test_an_empty_name(mount: MountedStore, address: Address) -> None:
    """A broker fails to start with "address can't be null or empty"."""
    assert errno_of(os.mkdir, address.path / "%") == errno.EINVAL
    assert errno_of(os.mkdir, mount.path / "%") == errno.EINVAL
    ((what, reason),) = address.refusals()
    assert what == "%: EINVAL"
    assert "an empty name" in reason


@pytest.mark.rule("S-141")
@pytest.mark.parametrize("setting", ["dead-letter-address", "expiry-address"])
def test_a_queue_is_no_address_for_what_leaves(address: Address, setting: str) -> None:
    attribute = f"user.journalfs.{setting}"
    assert errno_of(os.setxattr, address.path, attribute, b"dead::letters") == errno.EINVAL
    (address.path / ".settings").write_bytes(b"")
    assert errno_of((address.path / ".settings").write_text, f'{setting} = "dead::letters"\n') == errno.EINVAL
    assert "is the full name of a queue" in address.refusals()[-1][1]
    os.setxattr(address.path, attribute, b"dead:letters")
    assert os.getxattr(address.path, attribute) == b"dead:letters"


@pytest.mark.rule("S-141")
def test_one_colon_is_a_name_like_any_other(address: Address) -> None:
    queue = address.path / f"{address.name}:one:colon:"
    queue.mkdir()
    shell("echo x > in.txt", queue)
    assert len(shell("cat *.jsonl", queue).splitlines()) == 1


HALF = "a\ud800b"
LINE = json.dumps({"type": "text", "body": HALF})


@pytest.mark.rule("S-140")
def test_half_a_pair_is_kept_by_lines(address: Address) -> None:
    (address.first.path / "in.jsonl").write_text(f"{LINE}\n")
    assert bodies(address.first) == [HALF]
    shell(f"cat {address.first.path}/.all.jsonl > in.jsonl", address.second.path)
    assert bodies(address.second) == [HALF]
    assert b"a\\ud800b" in (address.second.path / ".all.jsonl").read_bytes()


@pytest.mark.rule("S-140")
def test_half_a_pair_does_not_come_through_jq(address: Address) -> None:
    """Version 1.6 stops at it where half a pair is followed by something else; later ones replace it."""
    (address.first.path / "in.jsonl").write_text(f'{LINE}\n{{"type": "text", "body": "after"}}\n')
    done = subprocess.run(
        ["jq", ".body", address.first.path / ".all.jsonl"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        assert "surrogate" in done.stderr
        assert "after" not in done.stdout
    else:
        assert done.stdout.splitlines() == ['"a\ufffdb"', '"after"']
    line_by_line = shell("jq -R 'fromjson? | .body' .all.jsonl", address.first.path).splitlines()
    assert line_by_line in (['"after"'], ['"a\ufffdb"', '"after"'])


@pytest.mark.rule("S-62", "S-140")
def test_half_a_pair_in_a_message_file_is_no_text(address: Address) -> None:
    (address.first.path / "in.jsonl").write_text(f"{LINE}\n")
    (name,) = address.first.listed()
    content = (address.first.path / ".messages" / name).read_bytes()
    assert content == b"a\xed\xa0\x80b"
    (address.second.path / "in.txt").write_bytes(content + b"\n")
    (line,) = address.second.lines()
    assert line["type"] == "bytes"
    (name,) = address.second.listed()
    assert (address.second.path / ".messages" / name).read_bytes() == content


@pytest.mark.rule("S-59")
@pytest.mark.parametrize("how", ["gone", "empty"])
def test_queues_whose_names_are_lost_are_found_by_the_event(tmp_path: Path, how: str) -> None:
    root = new_store(tmp_path / "store")
    with mounted_for_writing(root, tmp_path / "mnt") as mount:
        (mount.path / "orders" / "billing").mkdir(parents=True)
        shell("seq 3 > orders/in.txt", mount.path)
    (bindings,) = root.rglob("bindings")
    shutil.move(bindings, tmp_path / "away")
    if how == "empty":
        bindings.mkdir()
    with mounted_for_writing(root, tmp_path / "mnt") as mount:
        lost_path = mount.path / "orders" / "billing"
        assert errno_of((lost_path / "in.txt").write_bytes, b"x\n") == errno.ENOENT
        (event,) = [one for one in mount.events() if one["event"] == "bindings-lost"]
        assert "fails with ENOENT" in event["message"]
        (shown,) = (mount.path / "orders").iterdir()
        assert f"they are shown as orders/{shown.name}," in event["message"]
        lost_path.mkdir()
        shell("mv ../queue-*/*.jsonl .", lost_path)
        assert bodies(mount.queue("orders", "billing")) == ["1", "2", "3"]
