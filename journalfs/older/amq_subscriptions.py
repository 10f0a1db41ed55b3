"""Durable subscriptions of ActiveMQ 5, and the queues that they are here."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from journalfs.older.openwire_core import subscription_queue
from journalfs.selector.identifiers import JMS_TO_BROKER

_TO_JMS: Final = {broker: jms for jms, broker in JMS_TO_BROKER.items()}
_BROKER_NAMES: Final = re.compile(rf"(?<![\w$.])(?:{'|'.join(_TO_JMS)})(?![\w$.])")
_OWN_NAMES: Final = re.compile(r"(?<![\w$.])AMQ[A-Z]\w*")
"""Of what only brokers of today know."""
_MODES: Final = {"DURABLE": "PERSISTENT", "NON_DURABLE": "NON_PERSISTENT"}
_PARTS: Final = re.compile(r"((?:[^.\\]|\\.)+)\.((?:[^\\]|\\.)+)", re.DOTALL)


class Named(NamedTuple):
    """A durable subscription."""

    client: str
    name: str
    topic: str
    """What was asked for, with that broker's wildcards."""
    selector: str | None
    is_new: bool
    """The queue's name is none that a subscription has here."""

    @property
    def has_wildcards(self) -> bool:
        return any(part in (">", "*") for part in self.topic.split("."))


def subscription_of(queue: str, address: str, accepted: str | None) -> Named:
    """Which subscription a queue of a multicast address is; `accepted` is its filter."""
    topic = ".".join(">" if part == "#" else part for part in address.split("."))
    found = _PARTS.fullmatch(queue)
    if found is not None:
        client, name = (re.sub(r"\\(.)", r"\1", part) for part in found.groups())
        if subscription_queue(client, name) == queue:
            return Named(client, name, topic, jms_selector(accepted), is_new=False)
    return Named(queue, queue, topic, jms_selector(accepted), is_new=True)


def jms_selector(accepted: str | None) -> str | None:
    """A filter as the selector of JMS that it came of; None: there is none, as it asks what clients of JMS
    cannot.
    """
    if not accepted:
        return None
    pieces = accepted.split("'")
    for at in range(0, len(pieces), 2):
        pieces[at] = _BROKER_NAMES.sub(lambda found: _TO_JMS[found[0]], pieces[at])
    if _OWN_NAMES.search("'".join(pieces[::2])):
        return None
    if "AMQDurable" in accepted:
        pieces[1::2] = [_MODES.get(word, word) for word in pieces[1::2]]
    return "'".join(pieces)
