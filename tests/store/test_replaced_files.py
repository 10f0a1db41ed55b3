"""Files of ours that are replaced: a kill at any call leaves the old one or the new one, whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from journalfs import caller_files, door
from journalfs.api import Permissions
from journalfs.backup.places import place_at
from journalfs.bodies.flushed import FlushedFolder, FlushNote
from journalfs.live.index_file import read_index, write_index
from journalfs.records.files.file_gaps import DeletedFiles
from journalfs.store.permissions import KeptPermissions

CALLS: Final = ("open", "write", "pwrite", "ftruncate", "fsync", "rename", "replace", "unlink", "link")
KILLED: Final = 9


class Replaced(NamedTuple):
    """How a file is written once, written over, and what a reader takes from it."""

    first: Callable[[Path], object]
    then: Callable[[Path], object]
    read: Callable[[Path], object]
    before: object
    after: object


def flush(folder: Path, content: bytes) -> None:
    FlushedFolder(folder, sync=True).write(FlushNote("ab", "a", None, "x.txt", len(content), False), content)


def flushed(folder: Path) -> object:
    kept = FlushedFolder(folder, sync=True)
    return [kept.read(note) for note in kept.notes().notes]


def indexed(folder: Path) -> object:
    found = read_index(folder / "index", dict)
    assert found is not None
    return [bytes(one) for one in found[1]]


def exported(folder: Path, content: bytes) -> None:
    with caller_files.replacing(folder / "out", ".out.unfinished") as file:
        file.write(content)


def many_permissions(folder: Path) -> None:
    kept = KeptPermissions(folder, pytest.fail)
    for number in range(1026):
        kept.give("a", "q", Permissions(0o700 + number % 8))


def last_permissions(folder: Path) -> None:
    """The change after which the file is written anew."""
    KeptPermissions(folder, pytest.fail).give("a", "q", Permissions(0o755))


FILES: Final = {
    "deleted-journal-files.json": Replaced(
        lambda folder: DeletedFiles(folder, "journal").note([(1, 17)]),
        lambda folder: DeletedFiles(folder, "journal").note([(20, 22)]),
        lambda folder: DeletedFiles(folder, "journal").ranges(),
        [(1, 17)],
        [(1, 17), (20, 22)],
    ),
    "permissions": Replaced(
        many_permissions,
        last_permissions,
        lambda folder: KeptPermissions(folder, pytest.fail).of("a", "q"),
        Permissions(0o701),
        Permissions(0o755),
    ),
    "index": Replaced(
        lambda folder: write_index(folder / "index", {"n": 1}, [b"one"]),
        lambda folder: write_index(folder / "index", {"n": 2}, [b"two", b"three"]),
        indexed,
        [b"one"],
        [b"two", b"three"],
    ),
    "flushed": Replaced(
        lambda folder: flush(folder, b"one"), lambda folder: flush(folder, b"onetwo"), flushed,
        [b"one"], [b"onetwo"],
    ),
    "backup": Replaced(
        lambda folder: place_at(str(folder)).write("list", b"one"),
        lambda folder: place_at(str(folder)).write("list", b"two"),
        lambda folder: place_at(str(folder)).read("list", 100),
        b"one",
        b"two",
    ),
    "export": Replaced(
        lambda folder: exported(folder, b"one"),
        lambda folder: exported(folder, b"two"),
        lambda folder: (folder / "out").read_bytes(),
        b"one",
        b"two",
    ),
}  # fmt: skip


def calls_of(act: Callable[[], object], told: Callable[[str, tuple[Any, ...]], None]) -> None:
    """In a process of its own: `told` hears of each call that changes something, before it is made."""
    for name in CALLS:
        real = getattr(os, name)

        def call(*given: Any, _name: str = name, _real: Callable[..., Any] = real, **more: Any) -> Any:
            if _name != "open" or given[1] & os.O_CREAT:
                told(_name, given)
            return _real(*given, **more)

        setattr(os, name, call)
    act()


def forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(place: int, act: Callable[[], object]) -> int:
    """Do it in a process that is gone before its call number `place`; how that process ended."""

    def work() -> None:
        left = place

        def told(name: str, given: tuple[Any, ...]) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                os._exit(KILLED)

        calls_of(act, told)

    return forked(work)


@pytest.mark.rule("S-353")
@pytest.mark.parametrize("name", FILES)
def test_a_kill_at_any_call_leaves_the_old_one_or_the_new_one(tmp_path: Path, name: str) -> None:
    of = FILES[name]
    for place in range(60):
        folder = tmp_path / str(place)
        folder.mkdir()
        of.first(folder)
        assert of.read(folder) == of.before
        ended = killed_at(place, lambda folder=folder: of.then(folder))  # type: ignore[misc]
        assert of.read(folder) in ([of.after] if not ended else [of.before, of.after]), place
        if not ended:
            assert place > 2
            break
        assert ended == KILLED
        # What the process left is no hindrance, and is removed.
        of.then(folder)
        assert of.read(folder) == of.after
    else:
        pytest.fail("it makes more calls than were tried")


@pytest.mark.rule("S-353")
@pytest.mark.parametrize("name", FILES)
def test_content_is_durable_before_its_name_and_the_name_at_the_end(tmp_path: Path, name: str) -> None:
    of, said = FILES[name], tmp_path / "said"
    folder = tmp_path / "folder"
    folder.mkdir()
    of.first(folder)
    log = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    write = os.write

    def work() -> None:
        def told(call: str, given: tuple[Any, ...]) -> None:
            if call in {"rename", "fsync"}:
                is_file = call == "fsync" and os.path.isfile(f"/proc/self/fd/{given[0]}")
                write(log, f"{call}{'-file' if is_file else ''}\n".encode())

        place = place_at(str(folder))
        calls_of(lambda: (of.then(folder), place), told)

    assert forked(work) == 0
    os.close(log)
    calls = said.read_text().split()
    at = calls.index("rename")
    assert calls[at - 1] == "fsync-file"
    if name != "backup":  # its folders are synced together
        assert calls[at + 1] == "fsync"


def test_what_killed_processes_left_is_swept(tmp_path: Path) -> None:
    file = tmp_path / "note"
    left = [tmp_path / f"note.{process}-00.tmp" for process in (os.getpid(), 2**22 + 5)]
    for one in (*left, tmp_path / "note.json", tmp_path / "other.4194309-00.tmp"):
        one.write_text("x")
    door.sweep_replacements(file)
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(
        [left[0].name, "note.json", "other.4194309-00.tmp"]
    )
