"""Who may touch files, the compiled module and the clock. Each exception is written down with its reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.sources import Source, python_sources

MAY_OPEN_FILES: dict[str, str] = {
    "journalfs/cli/lazy.py": "points standard output at nothing when its reader has gone",
    "journalfs/cli/put.py": "copies files into a mount",
    "journalfs/cli/take.py": "reads a stream of a mount",
    "journalfs/cli/why.py": "reads the events of a mount",
    "journalfs/config/files.py": "reads configuration files",
    "journalfs/convert/carrying.py": "puts a new store together beside its destination, and moves it there",
    "journalfs/journal/heads.py": "reads headers and the control file, to order files",
    "journalfs/journal/kept_damage.py": "keeps what could not be read of files that are used again",
    "journalfs/large/flushed.py": "notes what was flushed, until it is published",
    "journalfs/large/spool.py": "keeps what is written of one message until it is whole",
    "journalfs/large/writing.py": "writes the bodies of large messages",
    "journalfs/pipeline/folders.py": "keeps archives and notes, made to count by renames",
    "journalfs/pipeline/report.py": "reads the template of its page, which comes with the package",
    "journalfs/spark/changing.py": "removes messages' files in a mount, which acknowledges them",
    "journalfs/spark/writer.py": "puts aside what tasks write, until the driver publishes it",
    "journalfs/spark/place.py": "asks a mount which store it is of",
    "journalfs/store/creating.py": "writes a new store's settings, and takes back a store that failed",
    "journalfs/store/index_file.py": "the index is derived and ours: replaced whole, never appended to",
    "journalfs/store/last_words.py": "what the next mount tells of the end of this one",
    "journalfs/store/locks.py": "looks at the lock files of a broker, and locks and writes them",
    "journalfs/store/part_numbers.py": "keeps which numbers of parts are used",
    "journalfs/store/sealed_parts.py": "notes which messages are in which part",
    "journalfs/store/write/unkept.py": "removes the directory of a store that is not kept",
    "mount/launch.py": "detaches the serving process and tells the waiting one that the mount answers",
    "mount/makers.py": "reads which run of the system this is",
    "mount/lifecycle.py": "raises the kernel's read-ahead",
    "journalfs/exchange/encoded_lines.py": "writes a journal that nobody has open, and reads headers",
    "journalfs/exchange/importing.py": "reads the file that is imported",
    "journalfs/exchange/targets.py": "publishes through a mount, as any program does",
    "mount/nodes/staged.py": "staged files are real files in the store's own folder",
    "mount/staging.py": "sweeps that folder",
    "mount/mountpoint.py": "reads the kernel's table of mounts",
    "mount/proc.py": "reads what the kernel says of processes and threads",
}
"""Product files outside `engine` that open, read or write files by themselves, and why they may."""

OPENING_ATTRIBUTES = {"open", "read_bytes", "read_text", "write_bytes", "write_text", "fdopen"}
OS_WRITES = {
    "open",
    "write",
    "pwrite",
    "writev",
    "pwritev",
    "ftruncate",
    "truncate",
    "fsync",
    "fdatasync",
    "sendfile",
}
REMOVALS = {"remove", "unlink", "rename", "replace", "rmdir", "removedirs", "rmtree"}
WALL_CLOCK = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.datetime.now"}


def dotted(node: ast.expr) -> str:
    """`a.b.c` of an attribute chain of plain names, else only what follows the last call or index."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else f".{node.attr}"
    return ""


def calls(source: Source) -> Iterator[tuple[int, str]]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            yield node.lineno, dotted(node.func)


def touches_files(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    if name in ("open", "mmap.mmap", "io.open"):
        return True
    if module == "os":
        return attribute in OS_WRITES | REMOVALS
    if module == "shutil":
        return attribute in REMOVALS | {"copy", "copyfile", "copytree", "move"}
    # A method of an object: `.open()` is also what our own sources of bytes have, so it counts only on paths.
    return attribute in OPENING_ATTRIBUTES - {"open", "fdopen"} or name.endswith("path.open")


DERIVING = ("journalfs/older/", "journalfs/tables/")
"""Read what other brokers and databases hold, and write what is derived from it: disposable."""


def test_only_the_engine_touches_files() -> None:
    found: dict[str, list[str]] = {}
    for source in python_sources():
        if source.is_product and not source.name.startswith(("journalfs/engine/", *DERIVING)):
            lines = [f"{line} {name}" for line, name in calls(source) if touches_files(name)]
            if lines:
                found[source.name] = lines
    unexpected = {name: lines for name, lines in found.items() if name not in MAY_OPEN_FILES}
    assert not unexpected, unexpected
    unneeded = set(MAY_OPEN_FILES) - set(found)
    assert not unneeded, f"no longer needed in MAY_OPEN_FILES: {unneeded}"


def test_only_the_engine_imports_the_compiled_module() -> None:
    found = [
        f"{source.name}:{node.lineno}"
        for source in python_sources()
        if source.is_product and not source.name.startswith("journalfs/engine/")
        for node in ast.walk(source.tree)
        if (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("journalfs.engine"))
        and (
            node.module == "journalfs.engine._native" or any(alias.name == "_native" for alias in node.names)
        )
    ]
    assert not found, found


def test_only_the_clock_module_reads_the_wall_clock() -> None:
    """Everything else asks a `Clock`, so that tests can stop time."""
    found = [
        f"{source.name}:{line} {name}"
        for source in python_sources()
        if source.is_product and source.name != "journalfs/clock.py"
        for line, name in calls(source)
        if name in WALL_CLOCK
    ]
    assert not found, found


@pytest.mark.parametrize(
    ("code", "touches"),
    [
        ("open(p)", True),
        ("path.open('rb')", True),
        ("self.path.open()", True),
        ("view.open()", False),
        ("Path(p).read_bytes()", True),
        ("os.open(p, 0)", True),
        ("os.stat(p)", False),
        ("shutil.rmtree(p)", True),
        ("names.replace('a', 'b')", False),
    ],
)
def test_the_measure_of_touching(code: str, touches: bool) -> None:
    call = ast.parse(code, mode="eval").body
    assert isinstance(call, ast.Call)
    assert touches_files(dotted(call.func)) is touches
