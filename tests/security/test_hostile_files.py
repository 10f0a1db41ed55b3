"""Whatever a stranger wrote into our own files and into configuration: an error or damage that says where,
soon and in little memory, and never a traceback.
"""

from __future__ import annotations

import json
import os
import random
import resource
import struct
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from journalfs.bodies.flushed import FlushNote, encode_note
from journalfs.limits import LOST_QUEUES_SHOWN_MAX
from tests.differential.encode import record
from tests.mounting import JOURNALFS, mounted, mounted_for_writing
from tests.store.appending import ADD_REF, UPDATE
from tests.store.conftest import QUEUE_A, LittleStore

ADDRESS_SPACE_BYTES = 1 << 31
COMMAND_S_MAX = 20
INT64_MAX = 2**63 - 1


def bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))


def command(*arguments: str | Path, finds_fault: bool | None = None) -> str:
    """Run a command, which must end well or with an error of its own; what it said."""
    done = subprocess.run(
        [JOURNALFS, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=COMMAND_S_MAX,
        check=False,
        preexec_fn=bounded,
    )
    said = (done.stdout + done.stderr).decode(errors="replace")
    assert "Traceback" not in said, said
    assert done.returncode >= 0, "it was ended by a signal"
    if finds_fault is not None:
        assert (done.returncode != 0) is finds_fault, said
    return said


# ---- configuration ----

NESTED = 100_000
HOSTILE_TOML = {
    "arrays": "a = " + "[" * NESTED + "\n",
    "arrays line by line": "a = " + "[\n" * NESTED,
    "tables": "a = " + "{a = " * NESTED + "\n",
    "dotted": ".".join(["a"] * NESTED) + " = 1\n",
    "dotted table": "[" + ".".join(["a"] * NESTED) + "]\n",
    "digits": "journal-file-size = " + "9" * NESTED + "\n",
    "digits in a text": 'journal-file-size = "' + "9" * NESTED + '"\n',
    "huge": "# " + "x" * (2 << 20),
    "no text": "\udcff\n",
    "wrong type": "journal-type = [1]\n",
    "negative": "journal-file-size = -9223372036854775809\n",
    "cut": "[address-settings.",
    "many keys": "".join(f"a{number} = 1\n" for number in range(50_000)),
}


@pytest.mark.rule("S-156")
@pytest.mark.parametrize("kind", HOSTILE_TOML)
def test_toml_of_a_stranger(little_store: LittleStore, kind: str) -> None:
    file = little_store.root / "journalfs.toml"
    file.write_bytes(HOSTILE_TOML[kind].encode("utf-8", "surrogateescape"))
    said = command("ls", little_store.root, finds_fault=True)
    assert str(file) in said
    assert len(said) < 2_000, "it is said shortly"


def broker_xml(content: str) -> str:
    return f"<configuration><core><name>{content}</name></core></configuration>"


HOSTILE_XML = {
    "open": broker_xml("${" * 500_000),
    "closed": broker_xml("${" * 400_000 + "}"),
    "each": broker_xml("${x}" * 200_000),
    "nested": "<a>" * NESTED,
    "many": "<configuration>" + "<a/>" * 900_000 + "</configuration>",
    "text in pieces": "<configuration>" + "x<a/>" * 150_000 + "</configuration>",
    "huge": broker_xml("x" * (5 << 20)),
    "entities": '<!DOCTYPE a [<!ENTITY a "x">]><a>&a;</a>',
    "cut": "<configuration><core>",
}


@pytest.fixture
def instance(little_store: LittleStore) -> Path:
    """A broker's instance around the store."""
    root = little_store.root.parent / "instance"
    (root / "etc").mkdir(parents=True)
    little_store.root.rename(root / "data")
    little_store.root = root / "data"
    return root


@pytest.mark.rule("S-156")
@pytest.mark.parametrize("kind", HOSTILE_XML)
def test_xml_of_a_stranger(instance: Path, kind: str) -> None:
    (instance / "etc/broker.xml").write_text(HOSTILE_XML[kind])
    command("ls", instance)


@pytest.mark.rule("S-156")
def test_properties_that_multiply_each_other(instance: Path) -> None:
    content = "${:" * 6 + "y" + "}" * 6
    (instance / "etc/broker.xml").write_text(broker_xml(content * 100_000))
    command("ls", instance)


# ---- what is in the journal ----


@pytest.mark.rule("S-157")
@pytest.mark.parametrize("highest", [INT64_MAX, pytest.param(INT64_MAX - 5, marks=pytest.mark.long)])
def test_ids_at_their_end(little_store: LittleStore, tmp_path: Path, highest: int) -> None:
    little_store.journal.send(highest, QUEUE_A)
    assert "work" in command("ls", little_store.root, finds_fault=False)
    command("check", little_store.root)
    command("cat", little_store.root, "work/work.a")
    done = subprocess.run(
        [JOURNALFS, "mount", little_store.root, tmp_path / "mnt"],
        capture_output=True,
        text=True,
        timeout=COMMAND_S_MAX,
        check=False,
    )
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        subprocess.run([JOURNALFS, "umount", tmp_path / "mnt"], check=True, timeout=COMMAND_S_MAX)


@pytest.mark.rule("S-157")
def test_references_to_queues_that_never_were(little_store: LittleStore) -> None:
    little_store.journal.send(1000, QUEUE_A)
    (little_store.root / "bindings/activemq-bindings-1.bindings").unlink()
    count = 60_000
    little_store.journal.path.write_bytes(
        little_store.journal.path.read_bytes()[: little_store.journal.at] + bytes(64 * count)
    )
    little_store.journal.append(
        *(
            record(UPDATE, 1, record_id=1000, user_type=ADD_REF, body=struct.pack(">q", 5_000 + number))
            for number in range(count)
        )
    )
    store = little_store.open(index=False)
    assert len(store.queues()) <= LOST_QUEUES_SHOWN_MAX
    lost = [damage for damage in store.core.damage() if damage.kind == "lost-binding"]
    assert any(f"{count + 1 - LOST_QUEUES_SHOWN_MAX} more queues" in damage.reason for damage in lost)
    store.close()


# ---- files of our own ----


def note_files() -> Iterator[bytes]:
    """Notes whose checksums are right and whose content is not what was ever written."""
    good = encode_note(FlushNote("ab" * 8, "work", None, "x.txt", 1, False), b"x")
    yield good[:-1]
    yield good[:20]
    for name, value in (
        ("note_id", 5),
        ("note_id", "../../x"),
        ("note_id", "zz"),
        ("address", None),
        ("address", ["work"]),
        ("address", "\ud800"),
        ("queue", {"a": 1}),
        ("file_name", 2**70),
        ("size_bytes", "many"),
        ("size_bytes", 2**70),
        ("size_bytes", -1),
        ("has_body_file", "yes"),
    ):
        fields = {"note_id": "ab" * 8, "address": "work", "queue": None, "file_name": "x.txt"}
        fields |= {"size_bytes": 1, "has_body_file": False, name: value}  # type: ignore[dict-item]
        yield _note(json.dumps(fields).encode())
    yield _note(b"[" * 200_000)
    yield _note(b"null")
    yield _note(b"{}")


def _note(told: bytes, content: bytes = b"x") -> bytes:
    import zlib  # noqa: PLC0415

    checksum = zlib.crc32(told, zlib.crc32(content))
    return content + told + struct.pack(">II8s", len(told), checksum, b"jfsnote1")


@pytest.mark.rule("S-158")
def test_notes_of_what_was_flushed(little_store: LittleStore, tmp_path: Path) -> None:
    folder = little_store.root / "journalfs/flushed"
    folder.mkdir(parents=True)
    for number, content in enumerate(note_files()):
        (folder / f"{number:016x}.note").write_bytes(content)
        (folder / f"{number:016x}.body").write_bytes(b"x")
    little_store.journal.send(1000, QUEUE_A)
    with mounted_for_writing(little_store.root, tmp_path / "mnt") as mount:
        assert (mount.path / "work/work.a").is_dir()
        (mount.path / "work/x.txt").write_text("still here\n")


MUTATIONS = 12


def mutated(content: bytes, seed: int) -> bytes:
    """Other bytes, deterministic: cut, lengthened, overwritten, repeated, or something else altogether."""
    chance = random.Random(seed)
    kind = seed % 6
    at = chance.randrange(len(content) + 1)
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content + chance.randbytes(4096)
    if kind == 2:
        several = bytearray(content)
        for _ in range(8):
            if several:
                several[chance.randrange(len(several))] = chance.choice((0, 0x7F, 0x80, 0xFF))
        return bytes(several)
    if kind == 3:
        return content[:at] + b"\xff" * 8 + content[at:]
    if kind == 4:
        return b"[" * 100_000
    return b"" if seed % 2 else content * 3


def own_files(root: Path) -> list[Path]:
    """Every file of ours that a store has."""
    return sorted(
        path for path in (root / "journalfs").rglob("*") if path.is_file() and not path.is_symlink()
    )


@pytest.fixture
def used(little_store: LittleStore, tmp_path: Path) -> LittleStore:
    """A store that has files of ours of every kind, as if the mount that wrote it had been killed."""
    little_store.journal.send(1000, QUEUE_A)
    with mounted_for_writing(little_store.root, tmp_path / "first") as mount:
        (mount.path / "work/x.txt").write_text("one\n")
        (mount.path / ".journalfs/snapshots/kept").mkdir()
        (mount.path / "work/_staged").mkdir()
        (mount.path / "work/_staged/part.txt").write_text("staged\n")
        left = {path: path.read_bytes() for path in own_files(little_store.root)}
    for path, content in left.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return little_store


@pytest.mark.rule("S-158")
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.long] if seed > 1 else []) for seed in range(MUTATIONS)]
)
def test_files_of_ours_with_other_content(used: LittleStore, tmp_path: Path, seed: int) -> None:
    before = {path: path.read_bytes() for path in own_files(used.root)}
    names = {path.relative_to(used.root / "journalfs").parts[0] for path in before}
    assert {"index", "index.parts", "snapshots", "staging"} <= names
    for number, (path, content) in enumerate(before.items()):
        path.write_bytes(mutated(content, seed + number))
    for arguments in (["ls"], ["check"], ["status"]):
        command(arguments[0], used.root, *arguments[1:])
    mounting = mounted if seed % 2 else mounted_for_writing
    with mounting(used.root, tmp_path / "mnt") as mount:
        assert sorted(line["body"] for line in mount.queue("work", "work.a").lines()) == ["one", "t"]
        for name in os.listdir(mount.path / ".journalfs/snapshots"):
            path = mount.path / ".journalfs/snapshots" / name
            if path.is_dir():
                with suppress(OSError):  # damage that is told
                    os.listdir(path)
