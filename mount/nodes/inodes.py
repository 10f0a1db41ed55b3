"""Inode numbers, and the nodes the kernel knows.

A number says what it stands for, so that a million listed messages cost the daemon nothing:

    bit 62 set      a message: queue slot (20 bits) and message id (42 bits)
    bit 61 set      any other node: the low 61 bits of a hash of its parent's number, its name and, for
                    content that never changes under one number, its version; for what was removed and made
                    again also how often it was. Of a part, and a tail named after it, the upper 34 of these
                    bits are its number: programs that copy a directory take its files in the order of their
                    inode numbers, and so messages keep theirs
    bit 60 set      a file that the front made (`native/front/made.c`), counted by it
    1               the root

The first two kinds give the same number after a new mount of the same store. Messages are not counted: their
number can always be taken apart again. Every other node lives in `NodeTable` from its first lookup until the
kernel has forgotten as many lookups as it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Generic, Protocol, TypeVar

from journalfs.ids import Inode, MessageId
from journalfs_mount.names.grammar import parse_part_name

ROOT: Final = Inode(1)
MESSAGE_BIT: Final = 1 << 62
TABLE_BIT: Final = 1 << 61
SLOT_BITS: Final = 20
MESSAGE_ID_BITS: Final = 42
_SLOT_END: Final = 1 << SLOT_BITS
SLOT_MAX: Final = _SLOT_END - 1
_MESSAGE_ID_END: Final = 1 << MESSAGE_ID_BITS
_TABLE_MASK: Final = TABLE_BIT - 1
_RANK_BITS: Final = 34
_RANKED_BITS: Final = 61 - _RANK_BITS
_AGAIN: Final = b"\0"
"""The mark in a key before the number of removals of its name. No name can contain it."""


def message_inode(slot: int, message_id: MessageId) -> Inode | None:
    """Number of a message in the queue with this slot; None when slot or id need more bits than there are."""
    if 0 <= slot < _SLOT_END and 0 <= message_id < _MESSAGE_ID_END:
        return Inode(MESSAGE_BIT | slot << MESSAGE_ID_BITS | message_id)
    return None


def message_of(inode: int) -> tuple[int, MessageId]:
    """Queue slot and message id of a number that has `MESSAGE_BIT`."""
    return inode >> MESSAGE_ID_BITS & _SLOT_END - 1, MessageId(inode & _MESSAGE_ID_END - 1)


def node_key(parent: int, name: bytes, version: bytes = b"") -> bytes:
    """Return the key that identifies a node. A slash cannot be in a name, so the parts cannot run into each
    other.
    """
    return b"%x/%b/%b" % (parent, name, version)


def parent_and_name(key: bytes) -> tuple[int, bytes]:
    """The number of the parent and the name that a key was made of."""
    parent, name, _ = key.split(b"/", 2)
    return int(parent, 16), name


def _rank(key: bytes) -> int | None:
    """The place of a part, or of what becomes one, among the files of its queue; None for anything else."""
    part = parse_part_name(key.split(b"/", 2)[1])
    return None if part is None else part.number & (1 << _RANK_BITS) - 1


class Numbered(Protocol):
    """The part of a node that the table needs."""

    inode: Inode
    key: bytes
    lookups: int


@dataclass(slots=True)
class _Removed:
    """The removed holder of a name."""

    times: int = 0
    nodes: int = 1
    """How many nodes there are of the name: removed ones that are not forgotten, and the one that has it."""


NodeT = TypeVar("NodeT", bound=Numbered)


class NodeTable(Generic[NodeT]):
    """The nodes that the kernel holds references to, by number."""

    __slots__ = ("_from_message", "_nodes", "_removed")

    def __init__(self, root: NodeT, from_message: Callable[[Inode], NodeT]) -> None:
        """`from_message` makes a short-lived node of a message number; the table does not keep it."""
        root.inode, root.key, root.lookups = ROOT, b"", 1
        self._nodes: dict[int, NodeT] = {ROOT: root}
        self._from_message = from_message
        self._removed: dict[bytes, _Removed] = {}
        """By key, of what was removed and that the kernel has not forgotten."""

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[NodeT]:
        return iter(list(self._nodes.values()))

    def node(self, inode: int) -> NodeT | None:
        """The node of a number; None if it was forgotten, or never given out."""
        node = self._nodes.get(inode)
        if node is None and inode & MESSAGE_BIT:
            return self._from_message(Inode(inode))
        return node

    def known(self, key: bytes) -> NodeT | None:
        """The node of a key if the kernel may know it."""
        key = self._latest(key)
        for inode in self._places(key):
            node = self._nodes.get(inode)
            if node is None or node.key == key:
                return node
        return None

    def enter(self, key: bytes, make: Callable[[], NodeT]) -> NodeT:
        """Return the node of `key`, made by `make` if there is none. The caller counts the lookup it
        answers."""
        latest = self._latest(key)
        for inode in self._places(latest):
            node = self._nodes.get(inode)
            if node is None:
                node = make()
                node.inode, node.key, node.lookups = Inode(inode), latest, 0
                self._nodes[inode] = node
                if key in self._removed:
                    self._removed[key].nodes += 1
                return node
            if node.key == latest:
                return node
        raise AssertionError("the places of a key never end")

    def adopt(self, node: NodeT, inode: Inode, key: bytes, lookups: int) -> None:
        """A node that the kernel knows already, by a number that this table gives to none."""
        node.inode, node.key, node.lookups = inode, key, lookups
        if lookups:
            self._nodes[inode] = node

    def retire(self, node: NodeT, left: NodeT) -> None:
        """Note that a directory was removed: the next one of its name is another node, with another number.
        As long as a process has the old one as working directory, or has something of it open, the kernel
        uses its number; for them it is `left`.
        """
        removed = self._removed.setdefault(node.key.partition(_AGAIN)[0], _Removed())
        removed.times += 1
        if node.lookups > 0:
            left.inode, left.key, left.lookups = node.inode, node.key, node.lookups
            self._nodes[node.inode] = left

    def _latest(self, key: bytes) -> bytes:
        removed = self._removed.get(key)
        return key if removed is None else b"%b%b%d" % (key, _AGAIN, removed.times)

    def _drop(self, node: NodeT) -> None:
        del self._nodes[node.inode]
        key = node.key.partition(_AGAIN)[0]
        removed = self._removed.get(key)
        if removed is not None:
            removed.nodes -= 1
            if not removed.nodes:
                del self._removed[key]

    def drop_unused(self, node: NodeT) -> None:
        """Let go of a node that was entered but not handed to the kernel after all."""
        if node.lookups == 0 and self._nodes.get(node.inode) is node:
            self._drop(node)

    def forget(self, forgotten: Sequence[tuple[int, int]]) -> None:
        """Take back lookups: pairs of number and count. Numbers of messages need nothing."""
        nodes = self._nodes
        for inode, count in forgotten:
            node = nodes.get(inode)
            if node is None or inode == ROOT:
                continue
            node.lookups -= count
            if node.lookups <= 0:
                self._drop(node)

    @staticmethod
    def _places(key: bytes) -> Iterator[int]:
        # Two keys with one hash are as good as never; if they come, the later one takes the next number.
        number = int.from_bytes(blake2b(key, digest_size=8).digest(), "big")
        rank = _rank(key)
        fixed, mask = 0, _TABLE_MASK
        if rank is not None:
            fixed, mask = rank << _RANKED_BITS, (1 << _RANKED_BITS) - 1
        while True:
            yield TABLE_BIT | fixed | number & mask
            number += 1
