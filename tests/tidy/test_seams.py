"""Who may touch files, the compiled module and the clock. Each exception is written down with its reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.sources import ROOT, Source, python_sources

MAY_OPEN_FILES: dict[str, str] = {
    "journalfs/process_start.py": "opens descriptors that were closed on /dev/null",
    "journalfs/cli/lazy.py": "points standard output at nothing when its reader has gone",
    "journalfs/backup/backups.py": "writes the files of a store that is restored, by their descriptors",
    "journalfs/cli/doctor.py": "reads a configuration of its caller's",
    "journalfs/cli/put.py": "copies files into a mount",
    "journalfs/cli/xa.py": "decides a transaction in a mount, as a shell does",
    "journalfs/inspect/flushing.py": "writes a file of its own, to time the disk",
    "journalfs/inspect/machine.py": "reads what the kernel says of itself",
    "journalfs/pipeline/known.py": "reads the note of an archive",
    "journalfs/spark/left.py": "notes and removes folders that jobs put aside in a mount",
    "journalfs/cli/refusals.py": "reads what a mount says",
    "journalfs/config/elsewhere.py": "reads the kernel's table of mounts",
    "journalfs/python/mounted.py": "does with a mount what a shell does",
    "journalfs/python/opening.py": "removes a store that it made of a backup, to look at it",
    "journalfs/cli/take.py": "reads a stream of a mount",
    "journalfs/through/broker_url.py": "reads the file of a password",
    "journalfs/through/store.py": "removes its own folder of temporary files",
    "journalfs/through/transactions.py": "removes a folder in that",
    "journalfs/cli/mounts.py": "asks a mount to bring messages back, and reads its events",
    "journalfs/convert/carrying.py": "puts a new store together beside its destination, and moves it there",
    "journalfs/door.py": "the way to a store's files",
    "journalfs/caller_files.py": "reads and makes files of its caller's, beside a store",
    "journalfs/process_list.py": "overwrites passwords among its own arguments, in memory",
    "journalfs/store_owner.py": "reads how a container numbers users",
    "journalfs/bodies/writing.py": "writes the bodies of large messages, the one that is not whole yet, too",
    "journalfs/pipeline/folders.py": "keeps archives and notes, made to count by renames",
    "journalfs/pipeline/report.py": "reads the template of its page, which comes with the package",
    "journalfs/spark/changing.py": "removes messages' files in a mount, which acknowledges them",
    "journalfs/spark/writer.py": "puts aside what tasks write, until the driver publishes it",
    "journalfs/spark/place.py": "asks a mount which store it is of",
    "journalfs/live/index_file.py": "the index is derived and ours: replaced whole, never appended to",
    "journalfs/store/locks.py": "looks at the lock files of a broker, and locks and writes them",
    "journalfs/live/part_names.py": "keeps which numbers of parts are used, and what is in which part",
    "journalfs/store/permissions.py": "keeps what was said of who may do what",
    "mount/start/launch.py": "detaches the serving process and tells the waiting one that the mount answers",
    "mount/nodes/believed.py": "tells the kernel to ask again, through the mount's own descriptor",
    "mount/start/lifecycle.py": "raises the kernel's read-ahead",
    "journalfs/cli/dlq.py": "moves messages in a mount, as any program does, and reads its events",
    "journalfs/exchange/targets.py": "publishes through a mount, as any program does",
    "mount/nodes/staged.py": "staged files are real files in the store's own folder",
    "mount/nodes/staging.py": "writes all of what is staged, and reads which run of the system this is",
    "mount/process/mount_table.py": "reads the kernel's table of mounts",
    "mount/start/mountpoint.py": "asks a mount and its process from outside",
    "mount/process/proc.py": "reads what the kernel says of processes and threads",
}
"""Product files outside `engine` that open, read or write files by themselves, and why they may."""

REACHES_BY_PATH: dict[str, str] = {
    "journalfs/backup/contents.py": "a mount, from outside",
    "journalfs/inspect/scrub_memory.py": "keeps digests where its caller keeps such: no store's files",
    "journalfs/cli/lazy.py": "/dev/null",
    "journalfs/process_start.py": "/dev/null, and / for a working directory that is gone",
    "journalfs/cli/mount.py": "the path that was given, which its caller means with all its links",
    "journalfs/cli/pipelines/common.py": "where a pipeline's result goes: its caller's own folder",
    "journalfs/cli/common.py": "whether what was given is a mount",
    "journalfs/cli/diff.py": "the folder of temporary files, for a backup that is looked at",
    "journalfs/cli/dlq.py": "a mount, from outside",
    "journalfs/cli/doctor.py": "a configuration of its caller's, and where a program is installed",
    "journalfs/cli/explain.py": "whether what was given is a mount",
    "journalfs/cli/letters.py": "a mount, from outside",
    "journalfs/cli/xa.py": "a mount, from outside",
    "journalfs/inspect/machine.py": "/proc and /sys",
    "journalfs/pipeline/archive_here.py": "where a pipeline's result goes: its caller's own folder",
    "journalfs/pipeline/known.py": "the same",
    "journalfs/pipeline/mark.py": "names and times of a store's files, none of which is opened",
    "journalfs/spark/left.py": "a mount, from outside, and /proc",
    "journalfs/cli/put.py": "files of the caller, and a mount from outside",
    "journalfs/cli/refusals.py": "a mount, from outside",
    "journalfs/config/data_directory.py": "finding out whether there is a store",
    "journalfs/config/elsewhere.py": "finding out whether a part belongs to another store",
    "journalfs/python/mounted.py": "a mount, from outside",
    "journalfs/python/opening.py": "the folder of temporary files, for a backup that is looked at",
    "journalfs/cli/take.py": "a mount, from outside",
    "journalfs/through/broker_url.py": "the file of a password",
    "journalfs/through/store.py": "the folder of temporary files: nothing is written beside a running broker",
    "journalfs/through/transactions.py": "the same",
    "journalfs/cli/mounts.py": "a mount, from outside",
    "journalfs/cli/version.py": "where the program is installed",
    "journalfs/cli/export.py": "where an export goes: its caller's own file",
    "journalfs/cli/import_.py": "what is imported: its caller's own file",
    "journalfs/convert/carrying.py": "whether what was given lies in the source, by any links",
    "journalfs/records/tables/holder.py": "/proc: which process holds a lease, and whether it lives",
    "journalfs/config/broker_xml.py": "configuration files",
    "journalfs/config/misnamed.py": "what a path is that is no store",
    "journalfs/config/layout.py": "finding out whether there is a store, and where",
    "journalfs/config/broker_properties.py": "configuration files",
    "journalfs/config/database.py": "whether a name is a path or a database",
    "journalfs/records/sources.py": "finding out what kind of store there is",
    "journalfs/config/instance.py": "configuration files",
    "journalfs/config/shell.py": "configuration files",
    "journalfs/config/older.py": "the same of other software; what is read goes through the door",
    "journalfs/config/xmltree.py": "configuration files",
    "journalfs/engine/zipped.py": "the compiled core, when the program is a zip file",
    "journalfs/exchange/encoded_lines.py": "exports and imports: their caller's own files",
    "journalfs/caller_files.py": "exports, imports and notes: their caller's own files",
    "journalfs/exchange/sorting.py": "temporary files without a name",
    "journalfs/exchange/targets.py": "the same",
    "journalfs/process_list.py": "/proc",
    "journalfs/store_owner.py": "asks whose directories are, and how containers number users",
    "journalfs/pipeline/folders.py": "archives and notes of pipelines: their caller's own folders",
    "journalfs/pipeline/report.py": "a page's template, which comes with the program",
    "journalfs/pipeline/session.py": "Java, and what it says",
    "journalfs/spark/changing.py": "a mount, from outside",
    "journalfs/spark/place.py": "a mount, from outside",
    "journalfs/spark/storage.py": "journals on any file system, copied into a folder of temporary files",
    "journalfs/spark/tables.py": "the folder of temporary files, for what a task reads of a database",
    "journalfs/spark/writer.py": "a mount, from outside",
    "journalfs/store/creating.py": "the path that was given",
    "journalfs/store/write/acquiring.py": "the folder of temporary files",
    "mount/process/callers.py": "/proc",
    "mount/kernel/fastwait.py": "/proc",
    "mount/start/launch.py": "/proc, /dev/null and the system's log",
    "mount/start/lifecycle.py": "/sys",
    "mount/nodes/staging.py": "/proc",
    "mount/start/mountpoint.py": "/proc, /dev/fuse and the mountpoint",
    "mount/nodes/staged.py": "descriptors, by their names in /proc",
    "mount/process/mount_table.py": "/proc",
    "mount/process/proc.py": "/proc",
}
"""Product files outside `door` that name a file or directory to the system by path, and why that is none of a
store's.
"""

BY_PATH = {
    "os": {
        *("open", "stat", "lstat", "statvfs", "access", "readlink", "listdir", "scandir", "walk", "fwalk"),
        *("rename", "replace", "renames", "link", "symlink", "unlink", "remove", "rmdir", "removedirs"),
        *("mkdir", "makedirs", "mknod", "mkfifo", "chmod", "chown", "lchown", "utime", "truncate", "chdir"),
    },
    "os.path": {
        "exists",
        "lexists",
        "isfile",
        "isdir",
        "islink",
        "ismount",
        "getsize",
        "getmtime",
        "realpath",
    },
    "shutil": {"rmtree", "copy", "copy2", "copyfile", "copytree", "move", "chown", "disk_usage", "which"},
    "tempfile": {
        "mkdtemp",
        "mkstemp",
        "NamedTemporaryFile",
        "TemporaryFile",
        "TemporaryDirectory",
        "gettempdir",
    },
}
OF_PATHS = {
    *("exists", "is_file", "is_dir", "is_symlink", "is_mount", "iterdir", "glob", "rglob", "lstat", "unlink"),
    *("rmdir", "mkdir", "read_bytes", "read_text", "write_bytes", "write_text", "readlink"),
    *("symlink_to", "hardlink_to", "chmod", "samefile"),
}
"""Methods that only paths have."""

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


DERIVING = ("journalfs/records/older/", "journalfs/records/tables/", "journalfs/records/new_store.py")
"""Read what other brokers and databases hold, and write what is derived from it: disposable."""


def reaches_by_path(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    if module == "door":
        return False
    if name in ("open", "io.open"):
        return True  # of a descriptor it is a file object like others: that is told apart below
    if module in BY_PATH:
        return attribute in BY_PATH[module]
    receiver = module.rpartition(".")[2]
    if receiver in {"entry", "one"} and attribute in {"is_dir", "is_file"}:
        return False  # of `door.entries`
    if receiver in {"path", "file", "folder", "directory"} and attribute in {"stat", "rename", "replace"}:
        return True
    return name.endswith("path.open") or ((bool(module) or name.startswith(".")) and attribute in OF_PATHS)


def opens_a_descriptor(call: ast.Call) -> bool:
    """`open(door.open_file(...))`, and of a descriptor that is open."""
    first = call.args[0] if call.args else None
    of_door = isinstance(first, ast.Call) and dotted(first.func).startswith(("door.", "os.memfd_create"))
    return dotted(call.func) == "open" and (of_door or (isinstance(first, ast.Name) and first.id == "made"))


@pytest.mark.rule("S-142")
def test_a_stores_files_are_reached_through_the_door() -> None:
    found: dict[str, list[str]] = {}
    for source in python_sources():
        if source.is_product and source.name != "journalfs/door.py":
            lines = [
                f"{node.lineno} {dotted(node.func)}"
                for node in ast.walk(source.tree)
                if isinstance(node, ast.Call)
                and reaches_by_path(dotted(node.func))
                and not opens_a_descriptor(node)
            ]
            if lines:
                found[source.name] = lines
    unexpected = {name: lines for name, lines in found.items() if name not in REACHES_BY_PATH}
    assert not unexpected, unexpected
    unneeded = {name for name in set(REACHES_BY_PATH) - set(found) if (ROOT / name).exists()}
    assert not unneeded, f"no longer needed in REACHES_BY_PATH: {unneeded}"


def test_only_the_engine_touches_files() -> None:
    found: dict[str, list[str]] = {}
    for source in python_sources():
        if source.is_product and not source.name.startswith(("journalfs/engine/", *DERIVING)):
            lines = [f"{line} {name}" for line, name in calls(source) if touches_files(name)]
            if lines:
                found[source.name] = lines
    unexpected = {name: lines for name, lines in found.items() if name not in MAY_OPEN_FILES}
    assert not unexpected, unexpected
    unneeded = {name for name in set(MAY_OPEN_FILES) - set(found) if (ROOT / name).exists()}
    assert not unneeded, f"no longer needed in MAY_OPEN_FILES: {unneeded}"


MAY_IMPORT_NATIVE: dict[str, str] = {
    "journalfs/records/older/rewriting.py": "calls native/older, which goes with the stores of older brokers",
}
"""Files outside `engine` that call C, and why they may."""


def test_only_the_engine_imports_the_compiled_module() -> None:
    found = [
        f"{source.name}:{node.lineno}"
        for source in python_sources()
        if source.is_product and not source.name.startswith(("journalfs/engine/", *MAY_IMPORT_NATIVE))
        for node in ast.walk(source.tree)
        if (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("journalfs.engine"))
        and (
            node.module == "journalfs.engine._native" or any(alias.name == "_native" for alias in node.names)
        )
    ]
    assert not found, found


@pytest.mark.parametrize(
    ("code", "reaches"),
    [
        ("os.stat(p)", True),
        ("os.path.exists(p)", True),
        ("open(p)", True),
        ("path.open('rb')", True),
        ("folder.rename(p)", True),
        ("(folder / name).is_dir()", True),
        ("Path(p).unlink()", True),
        ("shutil.rmtree(p)", True),
        ("door.exists(p)", False),
        ("os.fsync(descriptor)", False),
        ("backend.rename(old, new)", False),
        ("text.replace('a', 'b')", False),
    ],
)
def test_the_measure_of_reaching_by_path(code: str, reaches: bool) -> None:
    call = ast.parse(code, mode="eval").body
    assert isinstance(call, ast.Call)
    assert reaches_by_path(dotted(call.func)) is reaches


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
