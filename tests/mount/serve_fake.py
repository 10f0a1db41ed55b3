"""A process that mounts a fake store and does what its standard input says, one JSON list a line.

Every line is answered with one line: a JSON value, or {"error": ...}. The first comes unasked: "ready".
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import trio

from journalfs.ids import MessageId
from journalfs_mount.front import front
from journalfs_mount.options import MountOptions, parse_options
from journalfs_mount.start.mountpoint import prepare
from tests.mount.fake_store import BrokenQueue, FakeSource, FakeStore, ManyQueue

LONG_NAME = "long." * 100


def small(store: FakeStore) -> None:
    """Two addresses; `orders/billing` has two parts of ten messages, a tail of five, and other states."""
    billing = store.add_queue("orders", "billing")
    store.add_messages(billing, range(1, 11), part=1)
    store.add_messages(billing, range(11, 21), part=2)
    store.add_messages(billing, range(21, 26), part=0)
    store.add_messages(billing, [31, 32], part=0, state="scheduled")
    store.add_messages(billing, [33], part=0, state="delivering")
    store.add_messages(billing, [1 << 50], part=0)
    billing.messages[MessageId(2)].properties = {
        "user.property.ümläut": "größe".encode(),
        "user.property.\ud800": b"a lone surrogate",
        "user.property." + "x" * 300: b"too long a name",
        "user.property.big": b"x" * 65_537,
        "user.property.nul\0": b"a name with NUL",
    }
    store.add_queue("orders", "empty")
    store.add_queue("DLQ", "DLQ")


def names(store: FakeStore) -> None:
    for name in (
        "a/b",
        ".hidden",
        "_staged",
        "100%",
        "ümläut",
        "line\nbreak",
        "a~0123456789abcdef",
        LONG_NAME,
    ):
        store.add_messages(store.add_queue(name, name), [1], part=1)


def broken(store: FakeStore) -> None:
    small(store)
    store.add_messages(store.add_queue("orders", BrokenQueue("broken", store.next_slot())), [1], part=1)


def many(store: FakeStore) -> None:
    for count in (100_000, 1_000_000):
        store.add_queue("many", ManyQueue(str(count), store.next_slot(), count))


SCENARIOS = {"small": small, "names": names, "broken": broken, "many": many}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("mountpoint", type=Path)
    parser.add_argument("-o", dest="options", default="")
    called = parser.parse_args()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    store = FakeStore()
    SCENARIOS[called.scenario](store)
    store.following = lambda: _obey(store)
    chosen = {"read_only": True, **parse_options([called.options])}
    options = MountOptions(**chosen)
    if options.front != "off":
        front.load()
    from journalfs_mount.start import lifecycle  # noqa: PLC0415  (it imports pyfuse3, which comes behind the front)

    place = prepare(called.mountpoint, Path("/nowhere"), allow_nonempty=False)
    lifecycle.run(store, Path("/nowhere"), place, options, ready=lambda: _answer("ready"))
    _answer({"closed": store.closed, "open_sources": FakeSource.opened})


async def _obey(store: FakeStore) -> None:
    rest = b""
    async with trio.lowlevel.FdStream(0) as commands:
        async for data in commands:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                name, *arguments = json.loads(line)
                if name == "fail":
                    _answer(None)
                    raise RuntimeError("told to fail")
                if name == "sleep":
                    with trio.move_on_after(arguments[0]) as scope:
                        await trio.sleep_forever()
                    _answer({"cancelled": scope.cancelled_caught})
                elif name == "busy":
                    _answer(None)
                    threading.Event().wait(arguments[0])
                elif name == "thread":
                    _answer(await trio.to_thread.run_sync(sum, range(1000)))
                else:
                    _answer(COMMANDS[name](store, *arguments))
    await trio.sleep_forever()


def _remove(store: FakeStore, address: str, queue: str, ids: list[int]) -> None:
    store.remove_messages(store.by_name[address].bound[queue], ids)


def _add(store: FakeStore, address: str, queue: str, ids: list[int], part: int) -> None:
    store.add_messages(store.by_name[address].bound[queue], ids, part=part)


def _remove_queue(store: FakeStore, address: str, queue: str) -> None:
    store.remove_queue(address, queue)


def _memory_kib(store: FakeStore) -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _opened(store: FakeStore) -> int:
    return FakeSource.opened


def _refusals(store: FakeStore) -> list[tuple[str, str]]:
    return store.refusals


COMMANDS: dict[str, Callable[..., object]] = {
    "remove": _remove,
    "add": _add,
    "remove_queue": _remove_queue,
    "memory_kib": _memory_kib,
    "opened": _opened,
    "refusals": _refusals,
}


def _answer(content: object) -> None:
    print(json.dumps(content), flush=True)


if __name__ == "__main__":
    main()
