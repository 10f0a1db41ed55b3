"""One life of a store after the other, in each of which one act meets one call that fails.

`python -m tests.pressure.lives STORE FOLDER` (`failing.c` preloaded) reads cases from its standard input, a
line each, and writes what became of each. A case is a forked process: it opens a copy of the store, does what
comes before, lets the n-th call of a kind fail during the act, looks, goes on working, and ends without
closing anything. What `done` was said of has to hold, in the process and on the disk; of the rest all or
nothing.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import trio

from journalfs.errors import JournalfsError, ReadOnlyStore, WriteFailed
from journalfs.ids import MessageId
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from journalfs.views.queues import StoreQueue
from tests.crash.history import Change, History, Place
from tests.crash.plug import texts_in
from tests.store.publishing import publish_file

KINDS = (
    *(
        "alloc",
        "map",
        "open",
        "write",
        "sync",
        "rename",
        "unlink",
        "truncate",
        "room",
        "link",
        "folder",
        "submit",
    ),
)
SHORT = -1
LIFE_S = 120
"""A life that hangs ends by then, on a busy machine too."""
A, B, PAGES, NEW = ("work", "work.a"), ("work", "work.b"), ("paged", "paged"), ("new", "new")
SETTINGS = """
journal-type = "{backend}"
journal-file-size = 65536
journal-buffer-size = 8192
journal-compact-min-files = 4
journal-compact-percentage = 50
removed-keep-s = 3600
[address-settings."paged"]
max-size-messages = 3
page-size-bytes = 4096
"""


class Line(msgspec.Struct):
    id: int
    body: str


LINES: Final = msgspec.json.Decoder(Line)


@dataclass(frozen=True)
class Case:
    act: str
    kind: str
    nth: int
    """0: nothing fails, but all calls are counted."""
    times: int = 1
    error: int = errno.ENOMEM
    backend: str = "NIO"

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"


@dataclass
class Life:
    """What became of a case."""

    case: dict[str, Any]
    wrong: list[str] = field(default_factory=list)
    seen: int = 0
    """Calls of the kind during the act."""
    act: str = ""
    """What the act said: done, or its error."""
    after: list[str] = field(default_factory=list)
    """What was refused afterwards."""
    ended: str = ""
    """How the process ended, if not by itself."""


class Failing:
    """The preloaded library."""

    def __init__(self) -> None:
        self._lib = ctypes.CDLL(None)
        self._arm = self._lib.failing_arm
        self._arm.argtypes = (ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_int)
        self._seen = self._lib.failing_seen
        self._seen.restype = ctypes.c_long

    def arm(self, case: Case) -> None:
        self._arm(KINDS.index(case.kind), case.nth, case.times, case.error)

    def disarm(self) -> None:
        self._lib.failing_disarm()

    def seen(self, case: Case) -> int:
        return int(self._seen(KINDS.index(case.kind)))


# ---- what is done ----

Around: TypeAlias = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]
"""Does it, with calls failing meanwhile."""


class User:
    """Does things to the store, and says what it begins and what is done."""

    def __init__(self, store: WritingStore, say: Callable[[str], None], *, texts: int = 0) -> None:
        """`texts`: its texts are numbered from there on."""
        self.store = store
        self.say = say
        self._numbers = count(1)
        self._texts = count(texts)
        self.history = History()
        self.undone: set[Place] = set()

    async def change(
        self,
        work: Callable[[], Awaitable[object]],
        adds: set[Place] = frozenset(),  # type: ignore[assignment]
        removes: set[Place] = frozenset(),  # type: ignore[assignment]
        around: Around | None = None,
    ) -> None:
        change = Change(next(self._numbers), frozenset(adds), frozenset(removes))
        begun, done, failed = (change.line(word) for word in ("begun", "done", "failed"))
        self.say(begun)
        self.history.take(begun)
        try:
            await (work() if around is None else around(work))
        except ReadOnlyStore:
            self.say(failed)  # nothing of it was staged
            self.history.take(failed)
            raise
        self.say(done)
        self.history.take(done)

    def texts(self, how_many: int) -> list[str]:
        return [f"text {next(self._texts)}".ljust(200, ".") for _ in range(how_many)]

    def queue(self, path: tuple[str, str]) -> StoreQueue:
        return self.store.queue_at(path)

    def messages(self, path: tuple[str, str]) -> dict[str, MessageId]:
        source = self.queue(path).open_all()
        try:
            lines = bytes(source.read(0, source.size_bytes)).splitlines()
        finally:
            source.close()
        return {line.body: MessageId(line.id) for line in map(LINES.decode, lines)}

    def shown(self) -> dict[str, list[str]]:
        found = {}
        for queue in self.store.queues():
            source = queue.open_all()
            try:
                lines = bytes(source.read(0, source.size_bytes)).splitlines()
            finally:
                source.close()
            found[queue.name] = [line.body for line in map(LINES.decode, lines)]
        return found

    # ---- acts: what comes before, and the act, whose places are known before it ----

    def publishing(self, address: str, queue: str | None, how_many: int) -> Any:
        texts = self.texts(how_many)
        queues = (A[1], B[1]) if queue is None else (queue,)
        content = "".join(f"{text}\n" for text in texts).encode()
        work = partial(publish_file, self.store, address, queue, "in.txt", content)
        return partial(self.change, work, {(one, text) for one in queues for text in texts})

    def removing(self, path: tuple[str, str], how_many: int) -> Any:
        messages = dict(list(self.messages(path).items())[:how_many])
        work = partial(self.store.acknowledge, path, list(messages.values()))
        return partial(self.change, work, set(), {(path[1], text) for text in messages})

    def moving(self, source: tuple[str, str], target: tuple[str, str], how_many: int) -> Any:
        there = self.messages(target)
        messages = {text: one for text, one in self.messages(source).items() if text not in there}
        messages = dict(list(messages.items())[:how_many])
        work = partial(self.store.move, source, list(messages.values()), target)
        return partial(
            self.change,
            work,
            {(target[1], text) for text in messages},
            {(source[1], text) for text in messages},
        )

    def taking(self, path: tuple[str, str], *, well: bool = True) -> Any:
        """Take one; which it is, is known then: after a compaction the order of moved ones is another."""

        async def work() -> None:
            consumer = self.store.consumer(path)
            try:
                delivery = consumer.take()
                assert delivery is not None, "what is shown can be taken"
                try:
                    line = json.loads(bytes(delivery.line.read(0, delivery.line.size_bytes)))
                    gone = {(path[1], line["body"])} if well else set[Place]()
                except BaseException:
                    await delivery.give_back(failed=False)
                    raise
                await self.change(
                    delivery.acknowledge if well else partial(delivery.give_back, failed=True), set(), gone
                )
            finally:
                await consumer.close()

        async def act(around: Around | None = None) -> None:
            await (work() if around is None else around(work))

        return act

    def undoing(self, gone: set[Place]) -> Any:
        async def work() -> None:
            undone = await self.store.keeping.undo_last()
            assert sum(undone.back.values()) == len(gone), f"{undone} instead of {gone}"

        return partial(self.change, work, gone)


async def before(user: User, act: str) -> None:
    """What an act finds on the disk."""
    await user.publishing("work", "work.a", 6)()
    await user.publishing("work", None, 3)()
    await user.publishing("paged", "paged", 8)()
    await user.removing(A, 2)()
    if act in _KEPT_IN_B:
        for _ in range(5):
            await user.publishing("work", "work.b", 200)()
        await user.removing(B, len(user.messages(B)) - _KEPT_IN_B[act])()


async def _undo(user: User) -> Any:
    gone = {(A[1], text) for text in list(user.messages(A))[:3]}
    await user.removing(A, 3)()
    return user.undoing(gone)


_KEPT_IN_B = {"compact": 2, "reclaim": 0}
"""Of several journal files, of which little is live."""


async def _compact(user: User) -> Any:
    return partial(user.change, user.store.journals.messages.upkeep.compact)


async def _reclaim(user: User) -> Any:
    return partial(user.change, user.store.journals.messages.upkeep.reclaim)


async def _snapshot(user: User) -> Any:
    return partial(user.change, partial(user.store.snapshots.create, "one"))


async def _create_queue(user: User) -> Any:
    async def work() -> None:
        await user.store.create_address("new")
        await user.store.create_queue(*NEW)

    return partial(user.change, work)


async def _delete_queue(user: User) -> Any:
    await user.removing(B, len(user.messages(B)))()
    return partial(user.change, partial(user.store.delete_queue, *B))


async def _acknowledge_all(user: User) -> Any:
    gone = {(A[1], text) for text in user.messages(A)}
    return partial(user.change, partial(user.store.acknowledge_part, A, ".all.jsonl"), set(), gone)


async def _large(user: User) -> Any:
    text = "large".ljust(150_000, ".")
    work = partial(publish_file, user.store, "work", "work.a", "in.txt", f"{text}\n".encode())
    return partial(user.change, work, {(A[1], text)})


def _at_once(make: Callable[[User], Any]) -> Callable[[User], Awaitable[Any]]:
    async def ready(user: User) -> Any:
        return make(user)

    return ready


ACTS: Mapping[str, Callable[[User], Awaitable[Any]]] = {
    "publish": _at_once(lambda user: user.publishing("work", "work.a", 1)),
    "publish many": _at_once(lambda user: user.publishing("work", "work.a", 60)),
    "publish to all": _at_once(lambda user: user.publishing("work", None, 2)),
    "publish large": _large,
    "page": _at_once(lambda user: user.publishing("paged", "paged", 4)),
    "take": _at_once(lambda user: user.taking(A)),
    "give back": _at_once(lambda user: user.taking(A, well=False)),
    "take paged": _at_once(lambda user: user.taking(PAGES)),
    "remove": _at_once(lambda user: user.removing(A, 1)),
    "remove some": _at_once(lambda user: user.removing(A, 3)),
    "remove all": _acknowledge_all,
    "remove paged": _at_once(lambda user: user.removing(PAGES, 6)),
    "move": _at_once(lambda user: user.moving(A, B, 2)),
    "move paged": _at_once(lambda user: user.moving(PAGES, B, 6)),
    "undo": _undo,
    "compact": _compact,
    "reclaim": _reclaim,
    "snapshot": _snapshot,
    "create queue": _create_queue,
    "delete queue": _delete_queue,
}


# ---- one life ----


class Checked:
    """Looks at what is shown, and works on."""

    def __init__(self, user: User, life: Life, tell: Callable[[], None]) -> None:
        self.user, self.life, self.tell = user, life, tell

    async def look(self, when: str) -> None:
        """What failed happened or did not, as is shown from here on, unless the store takes no more."""
        user, store = self.user, self.user.store
        try:
            with suppress(WriteFailed):
                await store.published()
            await store.look()
            found = user.shown()
        except (JournalfsError, OSError, MemoryError) as error:
            self.life.wrong.append(f"{when}: nothing is shown: {error!r}")
            return
        under_way = dict(user.history.under_way)
        copy = History(set(user.history.there), dict(under_way))
        self.life.wrong += [f"{when}: {wrong}" for wrong in copy.settle(found)]
        if store.read_only:
            return
        user.history = copy
        for change in under_way.values():
            happened = change.adds <= copy.there and not change.removes & copy.there
            if happened and change.adds and not change.removes:
                self.life.wrong.append(f"{when}: told as failed, and there: a retry does it twice: {change}")
            user.say(change.line("done" if happened else "failed"))

    async def go_on(self) -> None:
        """Others have work to do, too. What cannot be done says so by an error of ours."""
        user = self.user
        works: tuple[Callable[[], Any], ...] = (
            lambda: user.publishing("work", "work.a", 1),
            lambda: user.publishing("work", "work.a", 30),
            lambda: user.taking(A),
            lambda: user.removing(A, 1),
            lambda: user.moving(A, B, 1),
            lambda: user.publishing("paged", "paged", 2),
            lambda: user.removing(PAGES, 1),
        )
        for place, work in enumerate(works):
            try:
                await work()()
            except (JournalfsError, OSError) as error:
                self.life.after.append(f"{place}: {error}")


async def live(case: Case, root: Path, failing: Failing, say: Callable[[str], None], life: Life) -> None:
    def tell() -> None:
        say(json.dumps(["life", asdict(life)]) + "\n")

    store = open_for_writing(root)
    store.keep_removed()
    user = User(store, say, texts=1_000_000)
    user.history.there = {(queue, text) for queue, texts in user.shown().items() for text in texts}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.run)
        act = await ACTS[case.act](user)
        checked = Checked(user, life, tell)

        async def around(work: Callable[[], Awaitable[object]]) -> None:
            failing.arm(case)
            try:
                await work()
            finally:
                failing.disarm()

        try:
            await act(around=around)
            life.act = "done"
        except (JournalfsError, OSError, MemoryError, trio.RunFinishedError) as error:
            life.act = f"{type(error).__name__}: {error}"
        life.seen = failing.seen(case)
        tell()
        await checked.look("after the act")
        await checked.go_on()
        await checked.look("at the end")
        tell()
        with suppress(JournalfsError):
            await store.journals.messages.committer.flush_all()
        os.kill(os.getpid(), signal.SIGKILL)


ENDS: Final = (
    MemoryError,
    OSError,
    JournalfsError,
    trio.TrioInternalError,
    trio.Cancelled,
    trio.RunFinishedError,
)
"""With what a process may end for lack of something."""


SAID_BY_PYTHON: Final = (
    "can't allocate lock",
    "error return without exception set",
    "expected str, bytes or os.PathLike object, not PosixPath",
)
"""Words of errors that CPython raises in places where it has no memory for a MemoryError."""


def may_end(error: BaseException) -> bool:
    """Whether a process may end with it."""
    return isinstance(error, ENDS) or any(words in str(error) for words in SAID_BY_PYTHON)


def leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in leaves(one)]
    return [error]


def _child(case: Case, root: Path, failing: Failing, out: int) -> None:
    life = Life(asdict(case))

    def say(line: str) -> None:
        os.write(out, line.encode())

    signal.alarm(LIFE_S)
    try:
        trio.run(live, case, root, failing, say, life)
    except BaseException as error:
        failing.disarm()
        life.ended = "".join(traceback.format_exc())[-2500:]
        life.wrong += [f"unexpected: {one!r}" for one in leaves(error) if not may_end(one)]
        life.seen = failing.seen(case)
        say(json.dumps(["life", asdict(life)]) + "\n")
    os.kill(os.getpid(), signal.SIGKILL)


def _prepare(act: str, root: Path) -> None:
    async def prepare() -> None:
        store = open_for_writing(root)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.journals.run)
            async with store.journals.messages.upkeep.turn:
                await before(User(store, lambda _: None), act)
            nursery.cancel_scope.cancel()
        store.close()

    child = os.fork()
    if not child:
        try:
            trio.run(prepare)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"nothing could be done before {act}"


def lived(case: Case, store: Path, folder: Path, failing: Failing) -> Life:
    root, prepared = folder / "data", folder / f"{case.act} {case.backend}".replace(" ", "-")
    if not prepared.exists():
        shutil.copytree(store, prepared)
        (prepared / "journalfs.toml").write_text(SETTINGS.format(backend=case.backend))
        _prepare(case.act, prepared)
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(prepared, root)
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        os.close(readable)
        _child(case, root, failing, writable)
    os.close(writable)
    with open(readable, "rb") as said:
        lines = said.read().splitlines()
    _, status = os.waitpid(child, 0)
    life, history = Life(asdict(case)), History(set(places_in(prepared)))
    for line in lines:
        word, *rest = json.loads(line)
        if word == "life":
            life = Life(**rest[0])
        else:
            history.take(line.decode())
    if status != signal.SIGKILL:
        life.wrong.append(f"it ended with {status:#x}")
    life.wrong += [f"on the disk: {wrong}" for wrong in history.settle(texts_in(root))]
    life.wrong += opened_again(root)
    return life


@cache
def places_in(prepared: Path) -> frozenset[Place]:
    return frozenset((queue, text) for queue, texts in texts_in(prepared).items() for text in texts)


def opened_again(root: Path) -> list[str]:
    """What the library finds, which has to be what the other reader finds."""
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        os.close(readable)
        try:
            wrong = trio.run(_opened_again, root)
        except BaseException:
            wrong = ["opening again: " + traceback.format_exc()[-1500:]]
        os.write(writable, json.dumps(wrong).encode())
        os._exit(0)
    os.close(writable)
    with open(readable, "rb") as said:
        found = said.read()
    os.waitpid(child, 0)
    return list(json.loads(found)) if found else ["opening again: it crashed"]


async def _opened_again(root: Path) -> list[str]:
    expected = texts_in(root)
    store = open_for_writing(root)
    user = User(store, lambda _: None)
    found, damage = user.shown(), store.core.damage()
    wrong = [f"opened again: damage: {one}" for one in damage]
    if {name: sorted(texts) for name, texts in found.items()} != {
        name: sorted(texts) for name, texts in expected.items()
    }:
        wrong.append(f"opened again: {found} instead of {expected}")
    return wrong


def main() -> None:
    store, folder, failing = Path(sys.argv[1]), Path(sys.argv[2]), Failing()
    for line in sys.stdin:
        life = lived(Case(**json.loads(line)), store, folder, failing)
        print(json.dumps(asdict(life)), flush=True)


if __name__ == "__main__":
    main()
