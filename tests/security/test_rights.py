"""One function decides who may do what, for every way by which messages go: each way is tried with each mode,
through a mount, as another user.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.mounting import COMMAND_S_MAX, MountedStore, mounted_for_writing
from tests.writing.conftest import new_store

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")

ANNE, BOB, TEAM = 20001, 20002, 20010
R, W, X = 4, 2, 1

ACTOR = """
import errno, json, os, sys
os.umask(0o077)
def read(path):
    with open(path, "rb") as file:
        return file.read()
def put(path, data=b"put\\n", flags=0):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
def ask(path, data):
    fd = os.open(path, os.O_RDWR)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
for line in sys.stdin:
    try:
        exec(json.loads(line))
        print("ok", flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
    except AssertionError:
        print("nothing", flush=True)
"""


class Actor:
    """A process of another user, which does what it is told and says how it ended."""

    def __init__(self, user: int, folder: Path, *, groups: str = "") -> None:
        belongs = f"--groups={groups}" if groups else "--clear-groups"
        words = ["setpriv", f"--reuid={user}", f"--regid={user}", belongs, "/usr/bin/python3", "-c", ACTOR]
        self.process = subprocess.Popen(
            words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def does(self, statement: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(statement) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.communicate(timeout=COMMAND_S_MAX)


class Shared(NamedTuple):
    """`box/box` is Anne's, all else is Bob's, the control directory too."""

    mount: MountedStore
    bob: Actor

    @property
    def root(self) -> Path:
        return self.mount.path

    def fill(self, queue: str, origin: str) -> int:
        """Have one message in a queue alone, which comes from another; return its id."""
        folder = self.root / queue
        for name in (".all.jsonl", ".scheduled/.all.jsonl"):
            (folder / name).unlink()
        address, name = origin.split("/")
        properties = {"_AMQ_ORIG_ADDRESS": address, "_AMQ_ORIG_QUEUE": name, "n": 1}
        line = json.dumps({"type": "text", "properties": properties, "body": "secret"})
        (folder / "in.jsonl").write_text(line + "\n")
        (found,) = self.mount.queue(*queue.split("/")).listed_ids()
        return found


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    base = Path("/tmp") / f"journalfs-rights-{os.getpid()}"
    base.mkdir(mode=0o755)
    options = f"allow_other,uid={BOB},gid={BOB}"
    try:
        with mounted_for_writing(new_store(base / "store"), base / "mnt", "-o", options) as mount:
            for queue in ("box/box", "own/own"):
                (mount.path / queue).mkdir(parents=True)
                for one in (queue, queue.split("/", maxsplit=1)[0]):
                    os.chown(mount.path / one, BOB, BOB)
            os.chown(mount.path / "box/box", ANNE, ANNE)
            bob = Actor(BOB, mount.path)
            try:
                yield Shared(mount, bob)
            finally:
                bob.end()
    finally:
        subprocess.run(["rm", "-rf", base], check=True)


class Way(NamedTuple):
    """What Bob does, with the bits of `box/box` that it takes; `{id}` is the message in `box/box`."""

    does: str
    bits: int
    before: str = ""
    """What root does before."""
    prepares: str = ""
    """And Bob, after that."""


ALL = ".all.jsonl"
T = ".journalfs/transactions"
WAYS: Final[dict[str, Way]] = {
    # The box is a source.
    "read": Way("assert b'secret' in read('box/box/.all.jsonl')", R | X),
    "read-message": Way("read('box/box/.messages/{id}.txt')", R | X),
    "follow": Way("read_fd = os.open('box/box/.follow', os.O_RDONLY); os.close(read_fd)", R | X),
    "take": Way("fd = os.open('box/box/.take', os.O_RDONLY); os.close(fd)", R | W | X),
    "take-where": Way("fd = os.open('box/box/.where/n = 1/.take', os.O_RDONLY); os.close(fd)", R | W | X),
    "copy": Way("put('own/own/in.jsonl', read('box/box/.all.jsonl'))", R | X),
    "attribute": Way("os.getxattr('box/box/.messages/{id}.txt', 'user.property.n')", R | X),
    "attributes": Way("assert 'user.property.n' in os.listxattr('box/box/.messages/{id}.txt')", R | X),
    "move-all": Way(f"os.rename('box/box/{ALL}', 'own/own/x')", R | W | X),
    "move-tail": Way("os.rename('box/box/_tail.jsonl', 'own/own/x')", R | W | X),
    "move-where": Way(f"os.rename('box/box/.where/TRUE/{ALL}', 'own/own/x')", R | W | X),
    "move-message": Way("os.rename('box/box/.messages/{id}.txt', 'own/own/x')", R | W | X),
    "redrive": Way(f"os.rename('box/box/{ALL}', 'box/box/.redrive/x')", R | W | X),
    "redrive-elsewhere": Way("os.rename('box/box/.messages/{id}.txt', 'own/own/.redrive/x')", R | W | X),
    "redrive-directory": Way("os.rename('box/box/.where/TRUE', 'box/box/.redrive/x')", R | W | X),
    "redrive-origin": Way("os.rename('box/box/.by-origin/own::own', 'box/box/.redrive/x')", R | W | X),
    "transaction-takes": Way(f"os.rename('box/box/{ALL}', '{T}/t/x')", R | W | X, "", f"os.mkdir('{T}/t')"),
    "transaction-moves": Way(
        f"os.rename('box/box/{ALL}', '{T}/t/own/own/x')", R | W | X, "", f"os.mkdir('{T}/t')"
    ),
    "removed-moves": Way(
        f"os.rename('.journalfs/removed/box/box/{ALL}', 'own/own/x')", R | W | X, "rm box/box/.all.jsonl"
    ),
    "removed-copies": Way(f"read('.journalfs/removed/box/box/{ALL}')", R | X, "rm box/box/.all.jsonl"),
    "remove": Way(f"os.remove('box/box/{ALL}')", W | X),
    "message-attribute": Way(
        "os.setxattr('box/box/.messages/{id}.txt', 'user.journalfs.deliveryCount', b'2')", R | W | X
    ),
    "setting": Way("os.setxattr('box/box', 'user.journalfs.max-consumers', b'7')", R | W | X),
    "settings": Way("put('box/box/.settings', b'max-consumers = 8\\n')", R | W | X),
    # The box is a target.
    "write": Way("put('box/box/in.txt')", W | X),
    "write-staged": Way("put('box/box/.new')", W | X),
    "publish": Way("os.rename('own/.new', 'box/box/in.txt')", W | X, "", "put('own/.new')"),
    "publish-directory": Way(
        "os.rename('box/_new', 'box/box')", W | X, "", "os.mkdir('box/_new'); put('box/_new/one.txt')"
    ),
    "move-into": Way(f"os.rename('own/own/{ALL}', 'box/box/x')", W | X),
    "redrive-into": Way(f"os.rename('own/own/{ALL}', 'own/own/.redrive/x')", W | X),
    "undo": Way("ask('.journalfs/removed/.undo', b'last')", W | X, "rm box/box/.all.jsonl"),
    "removed-into": Way(
        f"os.rename('.journalfs/removed/own/own/{ALL}', 'box/box/x')", W | X, "rm own/own/.all.jsonl"
    ),
    "transaction-writes": Way(f"put('{T}/t/box/box/in.txt')", W | X, "", f"os.mkdir('{T}/t')"),
    "transaction-staged": Way(
        f"os.rename('own/.new', '{T}/t/box/box/in.txt')", W | X, "", f"put('own/.new'); os.mkdir('{T}/t')"
    ),
    "transaction-moves-into": Way(
        f"os.rename('own/own/{ALL}', '{T}/t/box/box/x')", W | X, "", f"os.mkdir('{T}/t')"
    ),
}
TIDY: Final = f"""
if 't' in os.listdir('{T}'): os.rmdir('{T}/t')
for name in ('own/.new', 'box/_new/one.txt', 'box/box/.new'):
    if os.path.exists(name): os.remove(name)
if os.path.exists('box/_new'): os.rmdir('box/_new')
"""


@pytest.mark.rule("S-350")
@pytest.mark.parametrize("way", WAYS)
def test_each_way_takes_its_bits(shared: Shared, way: str) -> None:
    """Whatever the owner says, Bob gets at `box/box` by this way with just these bits."""
    tried, box = WAYS[way], shared.root / "box/box"
    allowed, tidier = set(), Actor(0, shared.root)
    try:
        for mode in range(8):
            box.chmod(0o700)
            message_id = shared.fill("box/box", "own/own")
            shared.fill("own/own", "box/box")
            if tried.before:
                subprocess.run(
                    ["sh", "-c", tried.before], cwd=shared.root, check=True, start_new_session=True
                )
            if tried.prepares:
                assert shared.bob.does(tried.prepares) == "ok"
            box.chmod(0o700 | mode)
            said = shared.bob.does(tried.does.replace("{id}", str(message_id)))
            if said == "ok":
                allowed.add(mode)
            else:
                assert said in {"EACCES", "nothing"}, (mode, said)
            box.chmod(0o700)
            assert tidier.does(TIDY) == "ok"
    finally:
        tidier.end()
    assert allowed == {mode for mode in range(8) if mode & tried.bits == tried.bits}


DRAFTS: Final = {
    "file": ("os.chmod('a/.draft.txt', {mode})", "put('a/.draft.txt', b'secret\\n')", "a/.draft.txt"),
    "directory": (
        "os.chmod('a/_draft', {mode} | {mode} >> 2)",
        "os.mkdir('a/_draft'); put('a/_draft/one.txt', b'secret\\n'); os.chmod('a/_draft/one.txt', 0o644)",
        "a/_draft",
    ),
    "deep": (
        "os.chmod('a/_draft/in/one.txt', {mode})",
        "os.makedirs('a/_draft/in'); put('a/_draft/in/one.txt', b'secret\\n'); os.chmod('a/_draft', 0o757); "
        "os.chmod('a/_draft/in', 0o755)",
        "a/_draft",
    ),
}
TARGETS: Final = {"queue": "b/q/in.txt", "address": "b/in.txt", "named": "b/q"}


@pytest.fixture(scope="module")
def group() -> Iterator[tuple[Path, Actor, Actor]]:
    """Mounted as the page `Let a group write` says, with what Anne and Bob do there."""
    base = Path("/tmp") / f"journalfs-group-{os.getpid()}"
    base.mkdir(mode=0o755)
    options = f"allow_other,gid={TEAM},file_mode=0664,dir_mode=0777,umask=0000"
    actors: list[Actor] = []
    try:
        with mounted_for_writing(new_store(base / "store"), base / "mnt", "-o", options) as mount:
            for queue in ("a/aq", "b/q"):
                (mount.path / queue).mkdir(parents=True)
            actors = [Actor(user, mount.path, groups=str(TEAM)) for user in (ANNE, BOB)]
            try:
                yield mount.path, actors[0], actors[1]
            finally:
                for actor in actors:
                    actor.end()
    finally:
        subprocess.run(["rm", "-rf", base], check=True)


@pytest.mark.rule("S-351")
@pytest.mark.parametrize("kind", DRAFTS)
@pytest.mark.parametrize("target", TARGETS)
def test_who_publishes_can_read_what_is_staged(
    group: tuple[Path, Actor, Actor], kind: str, target: str
) -> None:
    root, anne, bob = group
    gives, makes, name = DRAFTS[kind]
    if kind == "file" and target == "named":
        pytest.skip("a file does not take the place of a directory")
    for mode, expected in ((0o600, "EACCES"), (0o660, "EACCES"), (0o602, "EACCES"), (0o606, "ok")):
        assert anne.does(makes) == "ok"
        assert anne.does(gives.format(mode=mode)) == "ok"
        assert bob.does(f"os.rename('{name}', '{TARGETS[target]}')") == expected, oct(mode)
        held = [line["body"] for line in MountedStore(root).queue("b", "q").lines()]
        assert held == (["secret"] if expected == "ok" else []), oct(mode)
        if expected == "EACCES":
            # It is still there, and its owner publishes it.
            assert anne.does(f"os.rename('{name}', '{TARGETS[target]}')") == "ok"
        (root / "b/q/.all.jsonl").unlink()


@pytest.mark.rule("S-351")
def test_a_group_reads_what_it_may(group: tuple[Path, Actor, Actor]) -> None:
    """By a supplementary group, which the request does not say."""
    root, anne, bob = group
    for mode, expected in ((0o060, "EACCES"), (0o640, "ok")):
        assert anne.does("put('a/.draft.txt', b'secret\\n')") == "ok"
        os.chown(root / "a/.draft.txt", ANNE, TEAM if expected == "ok" else ANNE)
        (root / "a/.draft.txt").chmod(mode)
        assert bob.does("os.rename('a/.draft.txt', 'b/q/in.txt')") == expected
        if expected == "EACCES":
            assert anne.does("os.rename('a/.draft.txt', 'b/q/in.txt')") == "ok", "an owner may chmod"
        (root / "b/q/.all.jsonl").unlink()


@pytest.mark.rule("S-352")
def test_a_transaction_is_its_makers(group: tuple[Path, Actor, Actor]) -> None:
    root, anne, bob = group
    made = root / T / "t"
    assert anne.does(f"os.mkdir('{T}/t'); put('{T}/t/a/aq/in.txt', b'mine\\n')") == "ok"
    assert (made.stat().st_uid, made.stat().st_mode & 0o7777) == (ANNE, 0o700)
    (root / "b/q/in.txt").write_text("other\n")
    for attempt in (
        f"os.listdir('{T}/t')",
        f"put('{T}/t/a/aq/more.txt')",
        f"os.remove('{T}/t/a/aq/in.txt')",
        f"os.rename('b/q/.all.jsonl', '{T}/t/x')",
        f"os.rename('{T}/t', '{T}/committed/t')",
        f"os.rename('{T}/t', '{T}/rolled-back/t')",
        f"os.rename('{T}/t', '{T}/prepared/1.YQ.YQ')",
        f"os.rmdir('{T}/t')",
        f"os.chmod('{T}/t', 0o777)",
    ):
        assert bob.does(attempt) in {"EACCES", "EPERM"}, attempt
    assert anne.does(f"os.rename('{T}/t', '{T}/committed/t')") == "ok"
    assert [line["body"] for line in MountedStore(root).queue("a", "aq").lines()] == ["mine"]
    for queue in ("a/aq", "b/q"):
        (root / queue / ".all.jsonl").unlink()


@pytest.mark.rule("S-351", "S-352")
def test_a_draft_of_somebody_else_is_not_read_by_a_commit(group: tuple[Path, Actor, Actor]) -> None:
    root, anne, bob = group
    assert anne.does("put('a/.draft.txt', b'secret\\n')") == "ok"
    assert bob.does(f"os.mkdir('{T}/b'); os.rename('a/.draft.txt', '{T}/b/b/q/in.txt')") == "ok"
    assert bob.does(f"os.rename('{T}/b', '{T}/committed/b')") == "EACCES"
    assert MountedStore(root).queue("b", "q").lines() == []
    (root / T / "b").rmdir()


@pytest.mark.rule("S-350")
def test_a_commit_takes_the_rights_of_now(shared: Shared) -> None:
    """What was allowed when the transaction was filled may not be when it is committed."""
    box, own = shared.root / "box/box", shared.root / "own/own"
    for begun, then in ((0o707, 0o703), (0o707, 0o705)):
        box.chmod(0o700)
        shared.fill("box/box", "own/own")
        box.chmod(begun)
        assert shared.bob.does(f"os.mkdir('{T}/t'); os.rename('box/box/{ALL}', '{T}/t/own/own/x')") == "ok"
        box.chmod(then)
        assert shared.bob.does(f"os.rename('{T}/t', '{T}/committed/t')") == "EACCES"
        box.chmod(begun)
        assert shared.bob.does(f"os.rename('{T}/t', '{T}/committed/t')") == "ok"
    (own / ALL).unlink()
    box.chmod(0o700)


@pytest.mark.rule("S-358")
def test_who_was_refused_reads_why(shared: Shared) -> None:
    """Events are the owner's where addresses have modes of their own."""
    box = shared.root / "box/box"
    box.chmod(0o703)
    shared.fill("own/own", "box/box")
    (box / "in.txt").write_text("one\n")
    assert shared.bob.does(f"os.rename('box/box/{ALL}', 'own/own/x')") == "EACCES"
    assert shared.bob.does("assert b'may not read box::box' in read('.refused.jsonl')") == "ok"
    other = Actor(ANNE, shared.root)
    try:
        assert other.does("read('.journalfs/events.jsonl')") == "EACCES"
        assert other.does("assert read('.refused.jsonl') == b''") == "ok"
        assert other.does("os.rename('box/box/_tail.jsonl', 'own/own/x')") == "EACCES"
        assert other.does("put('.refused.jsonl')") in {"EACCES", "EPERM"}
    finally:
        other.end()
    assert ".refused.jsonl" not in os.listdir(shared.root)
    (box / ALL).unlink()
    box.chmod(0o700)


@pytest.mark.rule("S-413")
@pytest.mark.parametrize("name", [".where/n=1", ".where/n=2/.where/n=1"])
@pytest.mark.parametrize(("mode", "expected"), [(0o733, "EACCES"), (0o737, "ok"), (0o736, "EACCES")])
def test_who_may_not_read_asks_nothing(shared: Shared, name: str, mode: int, expected: str) -> None:
    """By the sizes of selections all that messages say is found out, a guess at a time."""
    shared.fill("box/box", "own/own")
    (shared.root / "box/box").chmod(mode)
    try:
        assert shared.bob.does(f"os.stat('box/box/{name}/{ALL}')") == expected
    finally:
        (shared.root / "box/box").chmod(0o700)


@pytest.mark.rule("S-350")
def test_the_way_to_a_target_leads_through_its_address(shared: Shared) -> None:
    """A queue that everybody may write to, in an address that nobody enters, gets nothing by `.redrive/`."""
    box = shared.root / "box"
    (box / "box").chmod(0o777)
    os.chown(box, ANNE, ANNE)
    try:
        for mode, expected in ((0o700, "EACCES"), (0o701, "ok")):
            box.chmod(mode)
            shared.fill("own/own", "box/box")
            assert shared.bob.does(f"os.rename('own/own/{ALL}', 'own/own/.redrive/x')") == expected
    finally:
        os.chown(box, BOB, BOB)
        box.chmod(0o755)
        (box / "box").chmod(0o700)


@pytest.mark.rule("S-350")
def test_settings_of_an_address_take_the_rights_of_its_queues(shared: Shared) -> None:
    """They say where dead letters and expired messages go: by them messages would leave Anne's queue."""
    set_it = "os.setxattr('box', 'user.journalfs.expiry-address', b'own')"
    (shared.root / "box/box").chmod(0o703)
    assert shared.bob.does(set_it) == "EACCES"
    assert shared.bob.does("put('box/.settings', b'expiry-address = \"own\"\\n')") == "EACCES"
    (shared.root / "box/box").chmod(0o707)
    assert shared.bob.does(set_it) == "ok"
    assert shared.bob.does("os.removexattr('box', 'user.journalfs.expiry-address')") == "ok"
    (shared.root / "box/box").chmod(0o700)


@pytest.mark.rule("S-431")
def test_metrics_are_of_queues_that_their_reader_may_read(shared: Shared) -> None:
    (shared.root / "own/in.txt").write_text("one\n")
    box, own = shared.root / "box/box", shared.root / "own/own"
    box.chmod(0o700)
    shows = "assert (b'queue=\"{0}\"' in read('.metrics')) is {1}"
    try:
        assert shared.bob.does(shows.format("own", True)) == "ok"
        assert shared.bob.does(shows.format("box", False)) == "ok"
        box.chmod(0o705)
        other = Actor(ANNE + 7, shared.root)
        try:
            assert other.does("read('.journalfs/metrics')") == "EACCES"
            assert other.does("assert b'journalfs_up 1.0' in read('.metrics')") == "ok"
            assert other.does("put('.metrics')") in {"EACCES", "EPERM"}
        finally:
            other.end()
        assert (shared.root / ".metrics").read_bytes().count(b"journalfs_queue_messages{") >= 2
        assert ".metrics" not in os.listdir(shared.root)
    finally:
        box.chmod(0o700)
    assert own.is_dir()
