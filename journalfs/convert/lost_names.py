"""Names for queues whose bindings are lost, from all else that is left of a store and names them.

Messages refer to a queue by its id; only its binding has its name. A broker drops what no binding names
(AMQ222043), so a new store gets a queue for each. `Carrying` calls this for a source that is open; nothing
is written here.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from journalfs import door
from journalfs.bindings.model import Queue
from journalfs.config.broker_config import BrokerConfig
from journalfs.config.xmltree import Element, Loader
from journalfs.engine.buffers import MappedFile
from journalfs.errors import DecodeError, JournalfsError
from journalfs.format import core_message
from journalfs.format.bindings import RoutingType, decode_queue_binding
from journalfs.format.record_types import BindingType
from journalfs.ids import QueueId
from journalfs.live.bindings import EXTENSION, read_bindings
from journalfs.live.content import QueueContent
from journalfs.live.stored_runs import each_stored
from journalfs.message.envelope import decode_envelope
from journalfs.message.outgoing import Outgoing
from journalfs.selector import compile_selector
from journalfs.store.snapshot_folder import BINDINGS, SNAPSHOTS
from journalfs.views.filters import SelectorFilter

if TYPE_CHECKING:
    from journalfs.live.core import Core
    from journalfs.live.runs import Run
    from journalfs.store.store import JournalStore

RECOVERED: Final = "recovered."
"""Before the name of a queue of which only the id is known."""

_ASKED_MAX: Final = 64
"""Messages of a queue that are asked how they were sent, and what they say of their origin."""

_OF_JMS: Final = "jms.queue."
"""Before the names of queues of JMS in HornetQ and Artemis 1.x."""

_ID_BYTES: Final = 8
_NAME_MAX: Final = 4096


class NamedQueue(msgspec.Struct, frozen=True):
    """A queue without a binding, and the name that it gets in the new store."""

    queue_id: int
    shown: str
    """`address::queue`, as the source is shown."""
    name: str
    address: str
    routing_type: int
    by: str
    """What says so."""
    filter: str | None = None
    metadata: str = ""

    @property
    def full(self) -> str:
        return f"{self.address}::{self.name}"


def names_of_lost(store: JournalStore, destination: BrokerConfig | None) -> list[NamedQueue]:
    """Return a name for each lost queue of an open store, no two the same and none that a binding has.
    `destination`: the configuration of the broker that the new store is for.
    """
    core = store.core
    lost = core.lost.queues
    if not lost:
        return []
    found: dict[QueueId, NamedQueue] = {}
    taken = {queue.name for queue in core.bindings.queues.values()}

    def put(one: NamedQueue) -> None:
        if one.queue_id not in found and one.name not in taken:
            found[QueueId(one.queue_id)] = one
            taken.add(one.name)

    for named in (*_by_copies(core), *_by_remains(core)):
        put(named)
    for config in (core.layout.config, destination):
        for named in _by_configuration(core, config, _without(lost, found)):
            put(named)
    rest = _without(lost, found)
    for named in _by_origins(store, rest, taken):
        put(named)
    for queue_id, queue in rest.items():
        known = queue.address if queue.address != queue.name else None
        kind = _wanted_kind(core, queue_id)
        alone = known is not None and not core.bindings.queues_of(known) and _is_alone(lost, known)
        if known is not None and known.startswith(_OF_JMS):
            by = "a queue of JMS has the name of its address"
            put(_named(core, queue_id, (known, known), RoutingType.ANYCAST, by))
        if known is not None and alone and kind is RoutingType.ANYCAST:
            by = "its messages were sent to a point-to-point queue, which has the name of its address"
            put(_named(core, queue_id, (known, known), RoutingType.ANYCAST, by))
        name = f"{RECOVERED}queue-{queue_id}"
        while name in taken:
            name += "-lost"
        by = "nothing names it" if known is None else "nothing but its messages' address is known"
        put(_named(core, queue_id, (known or name, name), kind or RoutingType.MULTICAST, by))
    return [found[queue_id] for queue_id in sorted(found)]


def _without(lost: Mapping[QueueId, Queue], found: Mapping[QueueId, object]) -> Mapping[QueueId, Queue]:
    return {queue_id: queue for queue_id, queue in lost.items() if queue_id not in found}


def _named(core: Core, queue_id: QueueId, full: tuple[str, str], kind: RoutingType, by: str) -> NamedQueue:
    """`full`: address and name."""
    queue = core.lost.queues[queue_id]
    address, name = full
    return NamedQueue(int(queue_id), f"{queue.address}::{queue.name}", name, address, kind.value, by)


def _is_alone(lost: Mapping[QueueId, Queue], address: str) -> bool:
    return [queue.address for queue in lost.values()].count(address) == 1


# ---- copies and remains of the bindings ----


def _by_copies(core: Core) -> Iterator[NamedQueue]:
    """Yield what snapshots in the store keep of the bindings, the newest first."""
    folder = core.root / SNAPSHOTS
    try:
        names = sorted(door.names_if_there(folder), key=lambda one: -door.status(folder / one).st_mtime_ns)
    except OSError:
        return
    for name in names:
        place = folder / name / BINDINGS
        try:
            bindings, _ = read_bindings(place, relative_to=core.root)
        except (OSError, JournalfsError):
            continue
        for queue_id, queue in bindings.queues.items():
            if queue_id in core.lost.queues:
                one = queue.binding
                full, by = (queue.address, queue.name), f"the snapshot {name}"
                named = _named(core, queue_id, full, one.routing_type, by)
                yield msgspec.structs.replace(named, filter=one.filter, metadata=one.metadata or "")


def _by_remains(core: Core) -> Iterator[NamedQueue]:
    """Yield what damaged files of the bindings journal still say of a queue: a record of which a byte is
    wrong, or one of an earlier use of the file, has the name all the same.
    """
    folder = core.layout.bindings_dir
    try:
        paths = [folder / name for name in sorted(door.names_if_there(folder)) if EXTENSION in name]
    except OSError:
        return
    for path in paths:
        try:
            content = _content_of(path)
        except OSError:
            continue
        for queue_id in core.lost.queues:
            yield from _in_remains(core, path, content, queue_id)


def _content_of(path: Path) -> bytes:
    with MappedFile(path) as mapped:
        return mapped.reading(lambda: mapped.copy(0, mapped.size_bytes))


def _in_remains(core: Core, path: Path, content: bytes, queue_id: QueueId) -> Iterator[NamedQueue]:
    """A record has its id, the length of its body, its type and the body, one behind the other."""
    wanted = int(queue_id).to_bytes(_ID_BYTES, "big", signed=True)
    at = content.find(wanted)
    while at >= 0:
        body_at = at + _ID_BYTES + 5
        length = int.from_bytes(content[at + _ID_BYTES : body_at - 1], "big", signed=True)
        if content[body_at - 1 : body_at] == bytes((BindingType.QUEUE_BINDING,)) and 0 < length < _NAME_MAX:
            try:
                one = decode_queue_binding(content[body_at : body_at + length])
            except (DecodeError, ValueError):
                one = None
            if one is not None and one.name.isprintable() and one.address.isprintable() and one.name:
                by = f"{path.name} at byte {at}, where its binding was"
                named = _named(core, queue_id, (one.address, one.name), one.routing_type, by)
                yield msgspec.structs.replace(named, filter=one.filter, metadata=one.metadata or "")
        at = content.find(wanted, at + 1)


# ---- the configuration ----


def _by_configuration(
    core: Core, config: BrokerConfig | None, lost: Mapping[QueueId, Queue]
) -> Iterator[NamedQueue]:
    """Yield what broker.xml names: where one lost queue of an address is left, and it has one there. A broker
    that starts would make that queue beside one with another name.
    """
    if config is None:
        return
    places = (config.instance, config.instance / "bin")
    try:
        root = Loader(dict(os.environ), bases=places, carried=Path).load(config.file)
    except JournalfsError:
        return  # the broker that reads it says what is wrong
    for address in _elements(root, "core", "addresses", "address"):
        name = address.attributes.get("name", "")
        queues = [queue_id for queue_id, queue in lost.items() if queue.address == name]
        given = [
            (queue.attributes.get("name", ""), kind)
            for kind in RoutingType
            for queue in _elements(address, kind.name.lower(), "queue")
        ]
        if len(queues) == 1 and len(given) == 1 and given[0][0]:
            yield _named(core, queues[0], (name, given[0][0]), given[0][1], f"{config.file} names it")


def _elements(parent: Element, *path: str) -> Iterator[Element]:
    """Yield the elements at a path below another one."""
    for child in parent.every(path[0]):
        if len(path) == 1:
            yield child
        else:
            yield from _elements(child, *path[1:])


# ---- messages ----


def _by_origins(
    store: JournalStore, lost: Mapping[QueueId, Queue], taken: Iterable[str]
) -> Iterator[NamedQueue]:
    """Yield names that messages give of the queue they came from: where one lost queue of an address is left,
    and one name for it.
    """
    names: dict[str, set[str]] = {}
    given = set(taken)
    for queue in store.queues():
        for envelope in _with_origin(queue.content):
            properties = envelope.get("properties") or {}
            address = properties.get(core_message.ORIGINAL_ADDRESS)
            name = properties.get(core_message.ORIGINAL_QUEUE)
            origin = properties.get(core_message.ORIGINAL_MESSAGE_ID)
            if isinstance(address, str) and isinstance(name, str) and name:
                names.setdefault(address, set()).add(name)
                if isinstance(origin, int) and len(store.core.loader.state.message_refs(origin)):
                    given.add(name)  # a divert names itself, and leaves the original where it is
    for address, found in names.items():
        queues = [queue_id for queue_id, queue in lost.items() if queue.address == address]
        left = sorted(found - given)
        if len(queues) == 1 and len(left) == 1:
            kind = _wanted_kind(store.core, queues[0])
            if kind is None:
                kind = RoutingType.ANYCAST if left[0] == address else RoutingType.MULTICAST
            by = "messages that came from it say so"
            yield _named(store.core, queues[0], (address, left[0]), kind, by)


def _with_origin(content: QueueContent) -> Iterator[Mapping[str, Any]]:
    """Yield the envelopes of some messages that say where they came from."""
    selector = compile_selector(f"{core_message.ORIGINAL_QUEUE} IS NOT NULL")
    chosen = SelectorFilter(content, selector, None)
    for run in content.live():
        yield from _envelopes(content, chosen.apply(run))


def _envelopes(content: QueueContent, run: Run) -> Iterator[Mapping[str, Any]]:
    """Yield the first envelopes of a run. What cannot be read says nothing."""
    some = run.of(run.numbers[:_ASKED_MAX])
    if not len(some):
        return
    batch = some.batch(content)
    for index in range(len(some)):
        try:
            yield decode_envelope(batch.line(index))
        except (JournalfsError, OSError, ValueError):
            continue


def _wanted_kind(core: Core, queue_id: QueueId) -> RoutingType | None:
    """Return how messages of a lost queue were sent; None: they do not say, or differ."""
    content = QueueContent(core, core.lost.queues[queue_id])
    said: Counter[int] = Counter()
    for run in content.live():
        for _, found in each_stored(content, run.of(run.numbers[:_ASKED_MAX])):
            if isinstance(found, Outgoing) and found.routing_type is not None:
                said[found.routing_type] += 1
    return RoutingType(next(iter(said))) if len(said) == 1 else None
