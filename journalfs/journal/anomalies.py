"""Anomalies of the live state as damage: what records that are there say about records that are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from journalfs.damage import Damage
from journalfs.engine.state import LiveState
from journalfs.engine.state_types import Anomaly, AnomalyKind

_OF_UNKNOWN: Final = frozenset(
    {AnomalyKind.REF_OF_UNKNOWN, AnomalyKind.ACK_OF_UNKNOWN, AnomalyKind.UPDATE_OF_UNKNOWN}
)

_TEXTS: Mapping[AnomalyKind, tuple[str, str]] = {
    AnomalyKind.REF_OF_UNKNOWN: (
        "missing-message",
        "{queue} refers to message {a}, whose record is not in the journal: the message is lost",
    ),
    AnomalyKind.ACK_OF_UNKNOWN: (
        "missing-message",
        "an acknowledgement in {queue} of message {a}, whose record is not in the journal",
    ),
    AnomalyKind.UPDATE_OF_UNKNOWN: (
        "missing-message",
        "a delivery count or schedule in {queue} of message {a}, whose record is not in the journal",
    ),
    AnomalyKind.COMMIT_INCOMPLETE: (
        "incomplete-transaction",
        "transaction {a} committed {b} records in this file, and not all are there: a broker drops it whole",
    ),
    AnomalyKind.PREPARE_INCOMPLETE: (
        "incomplete-transaction",
        "transaction {a} prepared {b} records in this file, and not all are there: a broker drops it whole",
    ),
    AnomalyKind.SHORT_RECORD: (
        "short-record",
        "record {a} of type {b} is too short for its type and was left out",
    ),
    AnomalyKind.IN_DAMAGE: (
        "doubtful-record",
        "record {a} lies within what a damaged record claims, so it may be part of that record's body",
    ),
}
"""Kinds that mean that something is lost or doubtful. Unfinished transactions and messages without references
are how every killed broker leaves its journal, and an acknowledgement too many loses nothing."""


class Doubt:
    """Of one who goes on from what was read before: records come about messages that are not known. One that
    was deleted by then may be acknowledged again, as brokers do, and only who reads everything anew knows it
    from one that is lost.
    """

    def __init__(self) -> None:
        self._anomalies = 0

    def begin(self, state: LiveState) -> None:
        """Everything was read."""
        self._anomalies = state.counts().anomalies

    def arose(self, state: LiveState) -> bool:
        """Whether such records came since the last call."""
        before = self._anomalies
        self.begin(state)
        return self._anomalies > before and any(one.kind in _OF_UNKNOWN for one in state.anomalies())


def references_to_unknown(anomalies: Iterable[Anomaly], queue_names: Mapping[int, str]) -> Counter[str]:
    """How many records refer to messages that no record has, by the queue that they are about."""
    return Counter(name_of_queue(one.b, queue_names) for one in anomalies if one.kind in _OF_UNKNOWN)


def name_of_queue(queue_id: int, names: Mapping[int, str]) -> str:
    return names.get(queue_id, f"queue {queue_id}")


def anomaly_damage(
    anomalies: Iterable[Anomaly],
    file_name: Callable[[int], str | None],
    queue_names: Mapping[int, str],
) -> Iterator[Damage]:
    """One entry per anomaly; `file_name` says what a file slot is called, `None` once the file is gone."""
    for anomaly in anomalies:
        texts = _TEXTS.get(anomaly.kind)
        name = file_name(anomaly.file_slot)
        if texts is not None and name is not None:
            kind, reason = texts
            queue = name_of_queue(anomaly.b, queue_names)
            told = reason.format(a=anomaly.a, b=anomaly.b, queue=queue)
            yield Damage(name, anomaly.offset, 0, kind, told)
