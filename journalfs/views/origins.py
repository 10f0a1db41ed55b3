"""Where the messages of a view come from, and why they are there: the notes that brokers add to dead letters,
expired messages and others that changed their address.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from journalfs.api import QueuePath
from journalfs.engine.lines import LineBatch
from journalfs.engine.waiting import offload
from journalfs.format.core_message import ACTUAL_EXPIRY, ORIGINAL_ADDRESS, ORIGINAL_QUEUE, annotation_of
from journalfs.live.content import NOT_AS_MEASURED, OVERTAKEN
from journalfs.live.read_ahead import checked
from journalfs.live.runs import HeldFile, Run, check_all
from journalfs.live.settings import settings_in_force
from journalfs.message.envelope import envelope_decoder

if TYPE_CHECKING:
    from journalfs.live.content import QueueContent
    from journalfs.live.core import Core

READ_MESSAGES: Final = 256
"""Messages whose notes are read in one turn of a thread."""

EXPIRED: Final = "expired"
MAX_DELIVERIES: Final = "max-deliveries"
MOVED: Final = "moved"
SENT: Final = "sent"
REASONS: Final = (EXPIRED, MAX_DELIVERIES, MOVED, SENT)
"""Reasons: the message expired; it was delivered in vain too often; an operator moved it; a
client sent it here.
"""

ALL_NAME: Final = ".all.jsonl"


class Origin(NamedTuple):
    """The place where a message was before, as it says itself."""

    address: str | None
    queue: str | None
    expired: bool = False


decode_notes: Final = envelope_decoder(frozenset(("address", "properties", "extraProperties", "amqp")))


def note_of(envelope: Mapping[str, Any], name: str) -> object:
    """Return the value that an envelope of `decode_notes` has under a name of core messages;
    None: it has none.
    """
    properties = envelope.get("properties")
    if properties is not None and name in properties:
        return properties[name]
    extra = envelope.get("extraProperties")
    if extra is not None and name in extra:
        return extra[name].get("v")
    amqp = envelope.get("amqp")
    if amqp is not None:
        annotation = annotation_of(name)
        for key, value in amqp.get("messageAnnotations", ()):
            if key.get("v") == annotation:
                return value.get("v")
    return None


def origin_in(line: bytes) -> Origin:
    """Return the place where a line's message was before."""
    envelope = decode_notes(line)
    address, queue = note_of(envelope, ORIGINAL_ADDRESS), note_of(envelope, ORIGINAL_QUEUE)
    return Origin(
        address if isinstance(address, str) else None,
        queue if isinstance(queue, str) else None,
        note_of(envelope, ACTUAL_EXPIRY) is not None,
    )


def _read(lines: Any, keep: Any, count: int, held: Sequence[HeldFile]) -> list[Origin]:
    """Of some messages. Large bodies are not looked at."""
    found: list[Origin] = []

    def render() -> None:
        batch = LineBatch(lines, count, queue=None, keep=keep)
        found.extend(map(origin_in, batch.read(0, batch.size_bytes).splitlines()))

    checked(render, lambda: check_all(held))
    return found


async def _of_piece(content: QueueContent, piece: Run) -> list[tuple[int, Origin]]:
    ids = piece.ids(content)
    lines, keep, held = piece.headers(content)
    found = await offload(partial(_read, lines, keep, len(ids), held))
    return list(zip(ids, found, strict=True))


async def origins_of(content: QueueContent, runs: Iterable[Run]) -> AsyncIterator[tuple[int, Origin]]:
    """Return the messages of a queue by id, with the places they come from. Other requests are served
    meanwhile, and messages that they take away are left out.
    """
    for run in runs:
        for piece in run.split(READ_MESSAGES):
            try:
                for one in await _of_piece(content, piece):
                    yield one
            except (*OVERTAKEN, *NOT_AS_MEASURED):
                for single in piece.split(1):
                    try:
                        (one,) = await _of_piece(content, single)
                    except (*OVERTAKEN, *NOT_AS_MEASURED):
                        continue
                    yield one


class FoundView(Protocol):
    """See `journalfs.views.views.QueueView`."""

    content: QueueContent

    @property
    def version(self) -> int: ...

    async def find(self) -> None: ...

    def part_runs(self, name: str) -> Sequence[Run]: ...


class Origins:
    """Where the messages of one view come from, as of when it was found out last."""

    def __init__(self, view: FoundView) -> None:
        self._view = view
        self._counts: dict[Origin, int] = {}
        self._seen = -1

    async def find(self) -> None:
        view = self._view
        if self._seen == view.version:
            return
        await view.find()
        seen, counts = view.version, Counter[Origin]()
        async for _, origin in origins_of(view.content, view.part_runs(ALL_NAME)):
            counts[origin] += 1
        self._counts, self._seen = dict(counts), seen

    def places(self) -> Mapping[QueuePath, int]:
        found: Counter[QueuePath] = Counter()
        for origin, count in self._counts.items():
            if origin.address is not None and origin.queue is not None:
                found[origin.address, origin.queue] += count
        return found

    def reasons(self) -> Mapping[str, int]:
        content = self._view.content
        found: Counter[str] = Counter()
        for origin, count in self._counts.items():
            found[reason_of(content.core, content.model.address, origin)] += count
        return found

    def selector_of_place(self, place: QueuePath) -> str:
        address, queue = map(_quoted, place)
        return f"{ORIGINAL_ADDRESS} = {address} AND {ORIGINAL_QUEUE} = {queue}"

    def selector_of_reason(self, reason: str) -> str | None:
        """None for what is no reason."""
        if reason == EXPIRED:
            return f"{ACTUAL_EXPIRY} IS NOT NULL"
        if reason == SENT:
            return f"{ACTUAL_EXPIRY} IS NULL AND {ORIGINAL_ADDRESS} IS NULL AND {ORIGINAL_QUEUE} IS NULL"
        if reason not in REASONS:
            return None
        came = f"{ACTUAL_EXPIRY} IS NULL AND ({ORIGINAL_ADDRESS} IS NOT NULL OR {ORIGINAL_QUEUE} IS NOT NULL)"
        here, others = self._givers()
        chosen, listed = (here, "IN") if len(here) < len(others) else (others, "NOT IN")
        given_up = f"{ORIGINAL_ADDRESS} IS NOT NULL"
        if chosen or listed == "IN":
            given_up += f" AND {ORIGINAL_ADDRESS} {listed} ({', '.join(map(_quoted, chosen or ['']))})"
        return f"{came} AND {'' if reason == MAX_DELIVERIES else 'NOT '}({given_up})"

    def _givers(self) -> tuple[list[str], list[str]]:
        """Addresses whose dead letters come to this one, and others."""
        content = self._view.content
        found: tuple[list[str], list[str]] = [], []
        for name in sorted(content.core.bindings.addresses):
            reason = reason_of(content.core, content.model.address, Origin(name, name))
            found[reason != MAX_DELIVERIES].append(name)
        return found


def reason_of(core: Core, address: str, origin: Origin) -> str:
    """Why a message is in a queue of an address. Where no settings say where dead letters go, it is taken for
    one: nothing that is noted tells it from what somebody moved.
    """
    if origin.expired:
        return EXPIRED
    if origin.address is None:
        return SENT if origin.queue is None else MOVED
    given_up_to = settings_in_force(core).value(origin.address, "dead-letter-address")
    return MAX_DELIVERIES if given_up_to in (None, address) else MOVED


def takes_letters(core: Core, address: str) -> bool:
    """Whether settings send dead letters or expired messages to an address."""
    settings = settings_in_force(core)
    return any(address in settings.texts(name) for name in ("dead-letter-address", "expiry-address"))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
