"""Changes a mounted store in every way, and keeps a broker's account of it true."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.broker.sent import EVERY, FAR_MS, envelopes, large_file, lines, text
from tests.broker.shell import QueuePath, ShellStore
from tests.broker.writing import Account

CHANGED_QUEUES_MAX = 12
CONFIGURED = ("DLQ", "ExpiryQueue")
MOVED, MOVED_AMQP = "interop.moved", "interop.amqp.moved"
SENT_AMQP = "interop.amqp.sent"
FRAMED = {f"framed.{make.__name__}": make for make in EVERY}
"""A queue for each framing."""

AMQP_SENT: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    (
        {"protocol": "AMQP", "body": "a text", "userId": "m-1", "properties": {"color": "red"}},
        {
            "properties": {"messageId": {"t": "string", "v": "m-1"}},
            "maps": {"applicationProperties": [[{"t": "string", "v": "color"}, {"t": "string", "v": "red"}]]},
            "value": {"t": "string", "v": "a text"},
        },
    ),
    (
        {
            "amqp": {
                "messageAnnotations": [[{"t": "symbol", "v": "x-opt-mine"}, {"t": "string", "v": "noted"}]],
                "body": {
                    "section": "value",
                    "value": {"t": "map", "v": [[{"t": "symbol", "v": "k"}, {"t": "ubyte", "v": 7}]]},
                },
            }
        },
        {
            "maps": {
                "messageAnnotations": [[{"t": "symbol", "v": "x-opt-mine"}, {"t": "string", "v": "noted"}]]
            },
            "value": {"t": "map", "v": [[{"t": "symbol", "v": "k"}, {"t": "ubyte", "v": 7}]]},
        },
    ),
    ({"protocol": "AMQP", "body_base64": "AQL/"}, {"data": [b"\1\2\xff"]}),
    (
        {"protocol": "AMQP", "body": "in a file of its own", "largeMessage": True},
        {"value": {"t": "string", "v": "in a file of its own"}},
    ),
)
"""Lines that are published to `SENT_AMQP`, and what an AMQP client gets of each, as `Sections` names it."""


@dataclass
class Changing:
    """Changes a store, and keeps `expected` true to it."""

    store: ShellStore
    expected: Account
    counts: dict[str, int] = field(default_factory=dict)
    """Messages that queues gained or lost."""
    ordinary: list[str] = field(init=False)
    """Queues of which messages are taken."""

    def __post_init__(self) -> None:
        found = [
            name
            for name, messages in self.expected.messages.items()
            if len(messages) >= 5 and self.expected.queues[name]["internalQueue"] == "false"
        ]
        self.ordinary = sorted(found)[:CHANGED_QUEUES_MAX]

    def _count(self, queue: str, change: int) -> None:
        self.counts[queue] = self.counts.get(queue, 0) + change

    def _path(self, name: str) -> QueuePath:
        return self.expected.queues[name]["address"], name

    def acknowledge_and_move(self) -> None:
        targets: dict[str, list[dict[str, Any]]] = {MOVED: [], MOVED_AMQP: []}
        for target in targets:
            self.store.create(target, target)
        for name in self.ordinary:
            messages = self.expected.messages[name]
            gone, going = messages[1::5], messages[3::5]
            target = MOVED_AMQP if "amqp" in name else MOVED
            self.store.acknowledge(self._path(name), [one["id"] for one in gone])
            self.store.move(self._path(name), [one["id"] for one in going], (target, target))
            self.expected.messages[name] = [one for one in messages if one not in gone and one not in going]
            self._count(name, -len(gone) - len(going))
            targets[target] += [self._moved(one, name) for one in going]
        for target, moved in targets.items():
            self._expect_moved(target, moved)

    def _expect_moved(self, target: str, moved: list[dict[str, Any]]) -> None:
        assert len(self.store.lines((target, target))) == len(moved)
        self._count(target, len(moved))
        if moved:
            in_order = sorted(moved, key=lambda one: -one["priority"])
            # An AMQP message has its notes in its sections: those are looked at elsewhere.
            self.expected.messages[target] = [{} if "amqp" in one else one for one in in_order]

    def _moved(self, message: dict[str, Any], name: str) -> dict[str, Any]:
        """A message in a queue of another address: a copy, which says where it was."""
        if "amqp" in message:
            return message
        changed = {**message, "deliveryCount": 0, "durable": True}
        del changed["id"], changed["address"]
        changed["properties"] = {
            **message["properties"],
            "_AMQ_ORIG_QUEUE": {"t": "string", "v": name},
            "_AMQ_ORIG_ADDRESS": {"t": "string", "v": message["address"]},
            "_AMQ_ORIG_MESSAGE_ID": {"t": "long", "v": str(message["id"])},
        }
        return changed

    def publish(self) -> None:
        store = self.store
        store.create("fresh", "fresh.a", "fresh.b", "fresh.c")
        store.set_attribute("fresh", "fresh.b", "filter", "color = 'red'")
        for one in (lines(), envelopes(), large_file()):
            store.publish("fresh", None, one.file_name, one.content)
        sent = [*lines().wanted, *envelopes().wanted, *large_file().wanted]
        red = [one for one in sent if one["properties"].get("color") == {"t": "string", "v": "red"}]
        self.expected.messages |= {"fresh.a": sent, "fresh.b": red, "fresh.c": list(sent)}
        for name in ("fresh.a", "fresh.b", "fresh.c"):
            self._count(name, len(self.expected.messages[name]))

    def publish_in_every_framing(self) -> None:
        self.store.create("framed", *FRAMED)
        for name, make in FRAMED.items():
            one = make()
            self.store.publish("framed", name, one.file_name, one.content)
            # A file that nothing was written to is no message here.
            wanted = one.wanted if one.content else ()
            self.expected.messages[name] = list(wanted)
            self._count(name, len(wanted))
        self.store.create(SENT_AMQP, SENT_AMQP)
        content = "".join(json.dumps(line) + "\n" for line, _ in AMQP_SENT)
        self.store.publish(SENT_AMQP, SENT_AMQP, "in.jsonl", content.encode())
        self.expected.messages[SENT_AMQP] = [{} for _ in AMQP_SENT]
        self._count(SENT_AMQP, len(AMQP_SENT))

    def publish_in_one_step(self) -> None:
        """Files of several framings as one transaction; and duplicates, which are published once."""
        line = json.dumps({"body": "once", "duplicateId": "d-1"}).encode() + b"\n"
        files = {"a.txt": b"one\ntwo\n", "b.json": b'{"x": 1} {"y": 2}', "c.jsonl": line + line}
        self.store.publish_in_one_step(("fresh", "fresh.a"), files)
        self.store.publish("fresh", "fresh.a", "again.jsonl", line)
        once = text("once", properties={"_AMQ_DUPL_ID": {"t": "string", "v": "d-1"}})
        added = [text("one"), text("two"), text('{"x": 1}'), text('{"y": 2}'), once]
        self.expected.messages["fresh.a"] += added
        self._count("fresh.a", len(added))

    def schedule(self) -> None:
        self.store.create("later", "later")
        by_queue = json.dumps({"body": "by its queue", "scheduledTime": FAR_MS})
        itself = json.dumps({"body": "by itself", "properties": {"_AMQ_SCHED_DELIVERY": FAR_MS + 1}})
        over = json.dumps({"body": "over", "scheduledTime": 1})
        self.store.publish("later", "later", "in.jsonl", f"{by_queue}\n{itself}\n{over}\n".encode())
        ids = [line["id"] for line in self.store.lines(("later", "later"))]
        self.expected.scheduled["later"] = ids[:2]
        self.expected.messages["later"] = [text("over")]
        self._count("later", 3)

    def administer(self) -> None:
        # A broker gives the queues of its configuration their settings at each start.
        own = [name for name in self.ordinary if name not in CONFIGURED]
        first, last = own[0], own[-1]
        queues = self.expected.queues
        address = queues[first]["address"]
        for name, key, value in (
            ("max-consumers", "maxConsumers", "7"),
            ("consumers-before-dispatch", "consumersBeforeDispatch", "1"),
            ("delay-before-dispatch", "delayBeforeDispatch", "5"),
            ("exclusive", "exclusive", "true"),
            ("group-buckets", "groupBuckets", "3"),
        ):
            self.store.set_attribute(address, first, name, value)
            queues[first][key] = value
        self.store.set_attribute(queues[last]["address"], last, "paused", "true")
        queues[last]["paused"] = queues[last]["persistedPause"] = "true"
        self.store.set_attribute("fresh", None, "max-delivery-attempts", "4")
        self.store.set_attribute("later", None, "paused", "true")

    def come_and_go(self) -> None:
        """Addresses and queues that do not stay, and one of the broker's that goes."""
        for name, delete in (("gone", self._delete_by_steps), ("gone.too", self.store.delete_with_all)):
            self.store.create(name, name)
            self.store.publish(name, None, "in", b"x\n")
            delete(name)
        for name, queue in self.expected.queues.items():
            in_use = any(queue[key] != "0" for key in ("messageCount", "deliveringCount", "scheduledCount"))
            address = queue["address"]
            if in_use or queue["internalQueue"] == "true" or address in CONFIGURED:
                continue
            if name.startswith("$sys.") or self.expected.addresses[address]["queueCount"] != "1":
                continue
            self.store.delete_queue((address, name))
            self.store.delete_address(address)
            del self.expected.queues[name], self.expected.addresses[address]
            break

    def _delete_by_steps(self, name: str) -> None:
        self.store.acknowledge_parts((name, name))
        self.store.delete_queue((name, name))
        self.store.delete_address(name)

    def settle(self) -> None:
        """Counts, and what there is of new queues."""
        for name, change in self.counts.items():
            if name in self.expected.queues:
                queue = self.expected.queues[name]
                queue["messageCount"] = str(int(queue["messageCount"]) + change)
            else:
                self.expected.queues[name] = {"messageCount": str(change)}


def know_amqp_messages(store: ShellStore, expected: Account) -> None:
    """Which messages those are that were seen by AMQP only. A core client gets an AMQP message without an id
    with another one each time.
    """
    for name, messages in expected.messages.items():
        path = expected.queues[name]["address"], name
        if not store.folder(*path).is_dir():
            continue
        there = {line["id"]: line for line in store.lines(path)}
        if "amqp" in name:
            due = [
                one for one in store.queue(path).listed_ids() if one not in expected.scheduled.get(name, ())
            ]
            for message, message_id in zip(messages, due, strict=True):
                message |= {"id": message_id, "priority": there[message_id]["priority"]}
        else:
            for message in messages:
                if there[message["id"]]["protocol"] == "AMQP":
                    del message["userId"]


def change(store: ShellStore, expected: Account) -> None:
    know_amqp_messages(store, expected)
    changing = Changing(store, expected)
    changing.acknowledge_and_move()
    changing.publish()
    changing.publish_in_every_framing()
    changing.publish_in_one_step()
    changing.schedule()
    changing.administer()
    changing.come_and_go()
    changing.settle()


def change_after_compaction(store: ShellStore, expected: Account) -> None:
    """On in the files that compaction left."""
    store.publish("fresh", "fresh.c", "last.txt", b"after compaction\n")
    expected.messages["fresh.c"].append(text("after compaction"))
    queue = expected.queues["fresh.c"]
    queue["messageCount"] = str(int(queue["messageCount"]) + 1)
