"""Bad sectors and files that cannot be opened: each is listed, and everything else is there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.bodies.directory import LargeDirectory
from journalfs.config.layout import locate_store
from journalfs.engine.state import LiveState
from journalfs.engine.status import FileTorn
from journalfs.limits import HEADS_CHECKED_SHARE
from journalfs.live.bindings import read_bindings
from journalfs.live.core import Core
from journalfs.live.events import Events
from journalfs.live.part_names import PartNames
from journalfs.records.files.loader import JournalLoader
from journalfs.store import open_store
from tests.damage.cases import Queues, Seen, look, used_bytes
from tests.differential.encode import header as header_of
from tests.store.appending import JournalAppender
from tests.store.conftest import QUEUE_A, LittleStore
from tests.store.test_pages import small, write_page
from tests.tools.failing_disk import failing_disk

Copy = Callable[[str], Path]
Lines = Callable[..., list[bytes]]
PAGE = 4096
JOURNAL = "journal/activemq-data-1.amq"


def ids(seen: Seen) -> Queues:
    return {queue: found for queue, found in seen.queues.items() if found}


def bodies(lines: list[bytes]) -> list[bytes]:
    return [line.split(b'"body":"')[1].rstrip(b'"}') for line in lines if b'"damage"' not in line]


@pytest.mark.rule("S-48", "S-49")
@pytest.mark.parametrize("page", [0, 1, 3, 9, 15])
def test_one_bad_sector_of_a_journal_hides_only_what_is_in_it(
    little_store: LittleStore,
    lines_of: Lines,
    tmp_path: Path,
    page: int,
) -> None:
    """At the header, among small messages, in the last records, and in the unused tail."""
    journal = little_store.journal
    extents: list[tuple[int, int]] = []
    while journal.at < 12 * PAGE:
        begin = journal.at
        journal.send(1000 + len(extents), QUEUE_A, f"text {len(extents)}")
        extents.append((begin, journal.at))
    bad = page * PAGE, page * PAGE + PAGE
    whole = [
        f"text {number}".encode()
        for number, (begin, end) in enumerate(extents)
        if end <= bad[0] or begin >= bad[1]
    ]
    with failing_disk(little_store.root, tmp_path / "seen", {JOURNAL: [bad]}):
        for index in (False, True, True):
            store = open_store(tmp_path / "seen", clock=little_store.clock, index=index)
            assert bodies(lines_of(store, "work.a")) == whole
            places = [(one.file, one.offset, one.kind) for one in store.core.damage()]
            assert (JOURNAL, bad[0], "unreadable") in places
            assert "Input/output error" in str(store.core.damage())
            store.close()


@pytest.mark.rule("S-51")
def test_message_around_a_bad_sector_is_a_damaged_line(
    little_store: LittleStore,
    lines_of: Lines,
    tmp_path: Path,
) -> None:
    little_store.journal.send(1000, QUEUE_A, "before")
    little_store.journal.send(1001, QUEUE_A, "long " * 4000)
    little_store.journal.send(1002, QUEUE_A, "after")
    bad = 2 * PAGE, 3 * PAGE
    with failing_disk(little_store.root, tmp_path / "seen", {JOURNAL: [bad]}):
        store = open_store(tmp_path / "seen", clock=little_store.clock, index=False)
        before, damaged, after = lines_of(store, "work.a")
        assert (before.endswith(b'"body":"before"}'), after.endswith(b'"body":"after"}')) == (True, True)
        assert b'"id":1001' in damaged
        assert b'"damage":"a part of the message cannot be read from the disk"' in damaged
        assert b'"message_base64":' in damaged
        assert [(one.file, one.offset, one.length_bytes, one.kind) for one in store.core.damage()] == [
            (JOURNAL, bad[0], PAGE, "unreadable")
        ]
        assert look(tmp_path / "seen").wrong == []
        names = dict(store.control().child("damaged").children())  # type: ignore[union-attr]
        file = "journal%2Factivemq-data-1.amq"
        message = [name for name in names if "-message." in name]
        assert [name.rpartition(".")[2] for name in message] == ["json", "bin"]
        assert sorted(set(names).difference(message)) == [f"{file}@{bad[0]}-unreadable.json"]
        store.close()


@pytest.mark.rule("S-52")
def test_bad_sector_of_a_page_file(
    little_store: LittleStore,
    lines_of: Lines,
    tmp_path: Path,
) -> None:
    records = [small(2000 + number) for number in range(200)]
    path = write_page(little_store, 1, records)
    size = len(records[0])
    bad = PAGE, 2 * PAGE
    assert path.stat().st_size > 3 * PAGE
    name = str(path.relative_to(little_store.root))
    with failing_disk(little_store.root, tmp_path / "seen", {name: [bad]}):
        store = open_store(tmp_path / "seen", clock=little_store.clock, index=False)
        whole = [n for n in range(200) if (n + 1) * size <= bad[0] or n * size >= bad[1]]
        assert bodies(lines_of(store, "work.a")) == [f"paged {2000 + n}".encode() for n in whole]
        assert (name, bad[0], "unreadable") in [
            (one.file, one.offset, one.kind) for one in store.core.damage()
        ]


@pytest.mark.rule("S-48", "S-51")
def test_any_sector_of_any_file_of_a_real_store(store_copy: Copy, tmp_path: Path) -> None:
    """The store opens, says which file it is, and loses only what that file held."""
    data = store_copy("large-and-paged") / "data"
    pristine = look(data)
    journal = next(path for path in sorted((data / "journal").glob("*.amq")) if used_bytes(path) > 3 * PAGE)
    folder = next(path for path in sorted((data / "paging").iterdir()) if list(path.glob("*.page")))
    page = next(path for path in sorted(folder.glob("*.page")) if path.stat().st_size > PAGE)
    body = next(
        path
        for path in sorted((data / "large-messages").glob("*.msg"))
        if any(int(path.stem) in found for found in pristine.queues.values())
    )
    bindings = next(path for path in sorted((data / "bindings").glob("*.bindings")) if used_bytes(path) > 100)
    chosen = {
        journal: (PAGE, 3 * PAGE),
        page: (0, PAGE),
        folder / "address.txt": (0, PAGE),
        body: (0, PAGE),
        bindings: (PAGE, 2 * PAGE),
    }
    for number, (path, bad) in enumerate(chosen.items()):
        name = str(path.relative_to(data))
        with failing_disk(data, tmp_path / str(number), {name: [bad]}):
            seen = look(tmp_path / str(number))
        assert seen.wrong == [], name
        assert name in [file for file, _, _ in seen.places]
        if path in (body, bindings, folder / "address.txt"):
            assert ids(seen) == ids(pristine), name
        assert (seen.damaged_lines > 0) == (path == body), name


@pytest.mark.rule("S-48")
def test_links_to_themselves_and_to_nothing(little_store: LittleStore, lines_of: Lines) -> None:
    little_store.journal.send(1000, QUEUE_A, "there")
    write_page(little_store, 1, [small(2000)])
    names = [
        "journal/loop.amq",
        "bindings/loop.bindings",
        "paging/some-folder/000000002.page",
        "large-messages/77.msg",
        "journal/journal-rename-control.ctr",
        "paging/loop",
    ]
    for name in names:
        (little_store.root / name).symlink_to(Path(name).name)
    nothing = ["journal/nothing.amq", "bindings/nothing.bindings", "paging/some-folder/000000003.page"]
    for name in nothing:
        (little_store.root / name).symlink_to("not-there")
    for _ in range(2):
        store = little_store.open()
        assert bodies(lines_of(store, "work.a")) == [b"there", b"paged 2000"]
        assert sorted(one.file for one in store.core.damage()) == sorted([*names, *nothing])
        store.close()


@pytest.mark.rule("S-48")
def test_file_longer_than_any_broker_writes(little_store: LittleStore, lines_of: Lines) -> None:
    little_store.journal.send(1000, QUEUE_A, "there")
    os.truncate(little_store.journal.path, 5 << 30)
    store = little_store.open(index=False)
    assert bodies(lines_of(store, "work.a")) == [b"there"]
    assert [(one.file, one.offset, one.kind) for one in store.core.damage()] == [
        (JOURNAL, 2**31 - 1, "too-long")
    ]


@pytest.mark.rule("S-48")
def test_files_of_another_user(little_store: LittleStore) -> None:
    """Whoever may not read some of the files sees the rest, and which they are."""
    little_store.journal.send(1000, QUEUE_A, "there")
    write_page(little_store, 1, [small(2000)])
    path = write_page(little_store, 2, [small(2001)])
    root = little_store.root
    made = [root / "journal/secret.amq", root / "bindings/secret.bindings", path]
    made[0].write_bytes(little_store.journal.path.read_bytes())
    made[1].write_bytes(bytes(4096))
    for secret in made:
        secret.chmod(0)
    (root / "paging/closed").mkdir(mode=0)
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from journalfs.store import open_store\n"
        "store = open_store(Path(sys.argv[1]), index=False)\n"
        "[queue] = [one for one in store.queues() if one.name == 'work.a']\n"
        "print(len(queue), sorted(one.file for one in store.core.damage()))\n"
    )
    # Without these, root is its files' owner and no more.
    restricted = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    command: list[str | Path] = [*restricted, sys.executable, "-c", program, root]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    names = [*(str(one.relative_to(root)) for one in made), "paging/closed"]
    assert done.stdout == f"2 {sorted(names)}\n", done.stderr


VANISHING = {
    JOURNAL: "journal",
    "bindings/activemq-bindings-1.bindings": "bindings",
    "paging/some-folder/000000001.page": "paging",
}


@pytest.mark.rule("S-43", "S-44")
@pytest.mark.parametrize("name", VANISHING, ids=VANISHING.values())
@pytest.mark.parametrize("opening", range(6))
def test_file_that_is_renamed_between_listing_and_opening(
    little_store: LittleStore, lines_of: Lines, tmp_path: Path, name: str, opening: int
) -> None:
    """Whichever time it is that the file is not found: the next listing knows better."""
    little_store.journal.send(1000, QUEUE_A, "there")
    write_page(little_store, 1, [small(2000)])
    with failing_disk(little_store.root, tmp_path / "seen", gone={name: [opening]}):
        store = open_store(tmp_path / "seen", clock=little_store.clock, index=False)
        found = bodies(lines_of(store, "work.a"))
        assert found[0] == b"there"
        # A page is gone once all queues are done with it, so it need not be looked for.
        assert found[1:] == [b"paged 2000"] or name.startswith("paging")
        assert store.core.damage() == []


@pytest.mark.rule("S-48")
@pytest.mark.parametrize("name", list(VANISHING)[:2], ids=list(VANISHING.values())[:2])
def test_file_that_stays_listed_and_missing_is_damage(
    little_store: LittleStore, tmp_path: Path, name: str
) -> None:
    little_store.journal.send(1000, QUEUE_A, "there")
    with failing_disk(little_store.root, tmp_path / "seen", gone={name: list(range(100))}):
        store = open_store(tmp_path / "seen", clock=little_store.clock, index=False)
        assert [one.file for one in store.core.damage() if one.kind == "unreadable"] == [name]
        assert sum(len(queue) for queue in store.queues()) == (name != JOURNAL)


@pytest.mark.rule("S-48")
@pytest.mark.parametrize("header", [bytes(16), b"\xff" * 16], ids=["zeros", "ones"])
def test_all_headers_of_a_journal_lost(little_store: LittleStore, lines_of: Lines, header: bytes) -> None:
    little_store.journal.send(1000, QUEUE_A, "first")
    second = JournalAppender.create(little_store.root / "journal/activemq-data-2.amq", 2)
    second.send(1001, QUEUE_A, "second")
    for path in (little_store.journal.path, second.path):
        content = path.read_bytes()
        path.write_bytes(header + content[16:])
    for _ in range(2):
        store = little_store.open()
        assert bodies(lines_of(store, "work.a")) == [b"first", b"second"]
        assert [(one.file, one.kind) for one in store.core.damage()] == [
            (JOURNAL, "bad-header"),
            ("journal/activemq-data-2.amq", "bad-header"),
        ]
        store.close()


@pytest.mark.rule("S-48")
@pytest.mark.parametrize("size_bytes", [3 << 20, 1 << 40])
def test_a_file_of_zeros_is_free_and_no_damage_if_it_is_the_last(
    little_store: LittleStore, lines_of: Lines, size_bytes: int
) -> None:
    """Also one that is a hole of which nothing was ever written."""
    little_store.journal.send(1000, QUEUE_A, "there")
    free = little_store.root / "journal/activemq-data-3.amq"
    free.touch()
    os.truncate(free, size_bytes)
    store = little_store.open(index=False)
    assert bodies(lines_of(store, "work.a")) == [b"there"]
    assert store.core.damage() == []
    before = little_store.root / "journal/activemq-data-2.amq"
    before.write_bytes(bytes(3 << 20))
    store = little_store.open(index=False)
    assert bodies(lines_of(store, "work.a")) == [b"there"]
    (damage,) = store.core.damage()
    assert (damage.file, damage.kind, damage.length_bytes) == (f"journal/{before.name}", "zeroed", 3 << 20)
    before.unlink()
    free.unlink()
    little_store.journal.path.write_bytes(bytes(65536))
    assert little_store.open(index=False).status()["messages"] == 0


@pytest.mark.rule("S-44")
async def test_zeros_that_become_a_journal_file_are_read(little_store: LittleStore, lines_of: Lines) -> None:
    little_store.journal.send(1000, QUEUE_A, "first")
    path = little_store.root / "journal/activemq-data-2.amq"
    path.write_bytes(bytes(65536))
    store = little_store.open()
    await store.look()
    second = JournalAppender.create(path, 2)
    second.send(1001, QUEUE_A, "second")
    await store.look()
    assert bodies(lines_of(store, "work.a")) == [b"first", b"second"]


@pytest.mark.rule("S-51")
def test_file_cut_off_between_scanning_and_measuring(little_store: LittleStore) -> None:
    """What was found by its head and end has no middle any more when it is measured."""
    little_store.journal.send(1000, QUEUE_A, "before")
    little_store.journal.send(1001, QUEUE_A, "x" * 20_000)
    little_store.journal.send(1002, QUEUE_A, "after")
    loader = JournalLoader(
        little_store.root / "journal", "amq", little_store.root, little_store.clock, LiveState()
    )
    loader.load()
    os.truncate(little_store.journal.path, 2 * PAGE)
    core = Core(
        layout=locate_store(little_store.root),
        clock=little_store.clock,
        loaded=loader,
        bindings=read_bindings(little_store.root / "bindings", relative_to=little_store.root)[0],
        large=LargeDirectory(little_store.root / "large-messages"),
        events=Events(little_store.clock),
        names=PartNames(None, little_store.clock, Events(little_store.clock)),
    )
    core.bodies.measure_added()
    slot = loader.state.register_queue(QUEUE_A)
    lines = loader.state.line_batch(loader.state.refs(slot), "work.a", sealed=False)
    texts = bytes(lines.read(0, lines.size_bytes)).splitlines()
    assert [b'"damage":' in text for text in texts] == [False, True, True]
    assert [(one.offset, one.kind) for one in core.damage()] == [(2 * PAGE, "unreadable")]


@pytest.mark.rule("S-48", "S-45")
async def test_file_that_is_cut_off_and_restored_while_it_is_followed(
    little_store: LittleStore, lines_of: Lines
) -> None:
    for number in range(40):
        little_store.journal.send(1000 + number, QUEUE_A, f"text {number} " + "x" * 300)
    path = little_store.journal.path
    content = path.read_bytes()
    store = little_store.open()
    os.truncate(path, 2 * PAGE)
    await store.look()
    left = bodies(lines_of(store, "work.a"))
    assert 0 < len(left) < 40
    path.write_bytes(content)
    await store.look()
    assert len(bodies(lines_of(store, "work.a"))) == 40
    assert store.core.damage() == []


@pytest.mark.rule("S-44")
async def test_reused_file_among_many_is_noticed(little_store: LittleStore, lines_of: Lines) -> None:
    """A broker gives an old file a new header in place: no name changes, and its time may not either."""
    folder = little_store.root / "journal"
    little_store.journal.send(1000, QUEUE_A, "first")
    for number in range(2, 40):
        JournalAppender.create(folder / f"activemq-data-{number}.amq", number, size_bytes=4096)
    store = little_store.open()
    for _ in range(3):
        await store.look()
    path = folder / "activemq-data-20.amq"
    before = path.stat()
    again = JournalAppender(path, 50, 16)
    with path.open("r+b") as file:
        file.write(header_of(50))
    again.send(1001, QUEUE_A, "second")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    for _ in range(HEADS_CHECKED_SHARE):
        await store.look()
    assert bodies(lines_of(store, "work.a")) == [b"first", b"second"]


@pytest.mark.rule("S-51", "S-54")
def test_sector_that_fails_after_the_index_was_written(
    little_store: LittleStore, lines_of: Lines, tmp_path: Path
) -> None:
    """Who reads it gets an error once; who opens it again, the damaged line; and the index goes."""
    little_store.journal.send(1000, QUEUE_A, "before")
    little_store.journal.send(1001, QUEUE_A, "long " * 4000)
    index = tmp_path / "index"
    with failing_disk(little_store.root, tmp_path / "whole"):
        open_store(tmp_path / "whole", clock=little_store.clock, index=index).close()
    with failing_disk(little_store.root, tmp_path / "seen", {JOURNAL: [(2 * PAGE, 3 * PAGE)]}):
        store = open_store(tmp_path / "seen", clock=little_store.clock, index=index)
        assert store.status()["journalBytesScanned"] == 0
        names = [part.name for part in store.queues()[0].parts()]
        with pytest.raises(FileTorn):
            lines_of(store, "work.a")
        before, damaged = lines_of(store, "work.a")
        assert (b'"damage":' in before, b'"damage":' in damaged) == (False, True)
        assert [part.name for part in store.queues()[0].parts()] == names
        assert [(one.offset, one.kind) for one in store.core.damage()] == [(2 * PAGE, "unreadable")]
        store.close()
    assert not index.exists()
