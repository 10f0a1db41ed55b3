"""What a close is told of what is unfinished, when several processes write to one opening of a file."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from tests.writing.conftest import Address, bodies, errno_of, shell

IN_PIECES = [
    ("in.json", ['{"a":', '"x"', "}"], '{"a":"x"}'),
    ("in.jsonl", ['{"type":"text",', '"body":"pieces"', "}\n"], "pieces"),
    ("in.txt", ["a ", "b ", "c"], "a b c"),
]


def unpublished(address: Address) -> list[str]:
    """What is kept of what could not be published."""
    folder = address.mount.path.parent / "store/journalfs/unpublished"
    return os.listdir(folder) if folder.is_dir() else []


@pytest.mark.rule("S-69")
@pytest.mark.parametrize(("name", "pieces", "body"), IN_PIECES)
def test_commands_write_one_message_in_pieces(
    address: Address, tmp_path: Path, name: str, pieces: list[str], body: str
) -> None:
    """Each of them closes what the shell handed it, and is to hear of no failure, since there is none."""
    for number, piece in enumerate(pieces):
        (tmp_path / f"{number}").write_text(piece)
    files = [f"{tmp_path}/{number}" for number in range(len(pieces))]
    commands = "; ".join(f"cat {file}" for file in files)
    shell(f"set -e; ({commands}) > {name}", address.path)
    shell(f"set -e; {{ {commands}; }} > {name}", address.path)
    shell(f"set -e; exec > {name}; {commands}", address.path)
    assert bodies(address.first) == [body] * 3
    assert address.refusals() == []


@pytest.mark.rule("S-69")
@pytest.mark.parametrize("name", ["in.json", "in.jsonl"])
def test_what_is_unfinished_may_be_synced(address: Address, name: str) -> None:
    descriptor = os.open(address.path / name, os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, b'{"type":"text","bo')
    os.fsync(descriptor)
    os.close(os.dup(descriptor))
    os.write(descriptor, b'dy":"whole"}\n')
    os.close(descriptor)
    assert len(address.first.lines()) == 1
    assert address.refusals() == []


@pytest.mark.rule("S-69")
@pytest.mark.parametrize("name", ["in.json", "in.jsonl"])
def test_who_opened_it_is_told_at_the_last_close_that_it_ends_too_early(address: Address, name: str) -> None:
    descriptor = os.open(address.path / name, os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, b'{"type":"te')
    os.close(os.dup(descriptor))
    assert errno_of(os.close, descriptor) == errno.EINVAL
    assert address.first.lines() == []
    ((what, _),) = address.refusals()
    assert what == f"{name}: EINVAL"


@pytest.mark.rule("S-69")
def test_whoever_has_it_open_may_go_on(address: Address) -> None:
    """Who opened it closes it first, and those that it started write on."""
    with (address.path / "in.json").open("wb", buffering=0) as file:
        file.write(b'{"x":')
        child = subprocess.Popen(
            ["sh", "-c", "read go; true | cat; /bin/echo 7}"], stdin=subprocess.PIPE, stdout=file
        )
    child.communicate(b"go\n")
    assert child.returncode == 0
    assert bodies(address.first) == ['{"x":7}']
    assert address.refusals() == []


@pytest.mark.rule("S-69")
def test_what_ends_too_early_is_kept_where_a_close_went_well(address: Address) -> None:
    """The command was not told, for the shell might have gone on; the shell looks at no close."""
    shell("{ /bin/echo '[1,'; } > in.json", address.path)
    assert address.first.lines() == []
    ((what, _),) = address.refusals()
    assert what == "in.json: EINVAL"
    (said,) = [
        one for one in address.mount.events() if one["event"] == "kept" and address.name in one["message"]
    ]
    assert Path(said["message"].rpartition(" ")[2]).read_bytes() == b"[1,\n"


@pytest.mark.rule("S-68")
@pytest.mark.parametrize(
    "command",
    [
        "cp {source} {target}.bin",
        "cp {source} {target}",
        "mv {source} {target}.bin",
        "dd if={source} of={target}.bin status=none",
        "tee {target}.bin < {source}",
        "/bin/printf 7 > {target}",
        "/bin/printf 7 > {target}.json",
    ],
)
def test_who_writes_where_no_queue_is_bound_is_told(address: Address, tmp_path: Path, command: str) -> None:
    kept_before = unpublished(address)
    address.first.path.rmdir()
    address.second.path.rmdir()
    source = tmp_path / "source"
    source.write_bytes(b"one\ntwo")
    shell(command.format(source=source, target=address.path / "in"), tmp_path, succeeds=False)
    assert source.read_bytes() == b"one\ntwo"
    assert {what.partition(": ")[2] for what, _ in address.refusals()} == {"EDESTADDRREQ"}
    assert unpublished(address) == kept_before


@pytest.mark.rule("S-68")
@pytest.mark.parametrize("name", ["in.bin", "in.json", "in.txt"])
def test_who_writes_to_a_queue_that_was_removed_is_told(address: Address, name: str) -> None:
    descriptor = os.open(address.first.path / name, os.O_WRONLY | os.O_CREAT)
    try:
        os.write(descriptor, b"12")
        address.first.path.rmdir()
        assert errno_of(os.write, descriptor, b"34") == errno.EDESTADDRREQ
    finally:
        assert errno_of(os.close, descriptor) == errno.EDESTADDRREQ
