"""The root: one directory for each address, and `.journalfs`, which is reached by name and not listed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from journalfs.store.api import Address
from journalfs_mount.context import MountContext
from journalfs_mount.inodes import ROOT
from journalfs_mount.names import CONTROL_DIRECTORY, encode_name
from journalfs_mount.naming import find_named, new_name
from journalfs_mount.nodes.address import AddressDirectory
from journalfs_mount.nodes.base import Entry, MadeEntries, Node
from journalfs_mount.nodes.place import Place
from journalfs_mount.nodes.written import Target
from journalfs_mount.report import ControlDirectory
from journalfs_mount.staging import PlaceName


class RootDirectory(Place):
    """The mount's root."""

    __slots__ = ("_control",)

    def __init__(self, context: MountContext, parent_inode: int = ROOT) -> None:
        super().__init__(context, parent_inode)
        self._control: ControlDirectory | None = None

    @property
    def steady(self) -> bool:
        return self.context.brings_back is None

    def mtime_ns(self) -> int:
        return self.context.store.addresses_mtime_ns

    def place_name(self) -> PlaceName:
        return ()

    async def _make_shown(self, name: bytes) -> Node:
        address_name = new_name(name)
        await self.context.changing().create_address(address_name)
        self.note_maker(Target(address_name, None))
        return self.child(name)

    def find(self, name: bytes) -> Node | None:
        if name == CONTROL_DIRECTORY:
            return self.enter(name, self._made_control)
        store = self.context.store
        address = find_named(name, store.address, store.addresses)
        return None if address is None else self._address(address)

    def _made_control(self) -> Node:
        from journalfs_mount.nodes.snapshots import ControlNode  # noqa: PLC0415  (it imports this)

        if self._control is None:
            self._control = ControlDirectory(self.context.store.control(), self.context.report)
        return ControlNode(self.context, self.inode, lambda: self._control)

    def entries(self) -> Sequence[Entry]:
        return MadeEntries(self.context.store.addresses(), self._entry)

    def _entry(self, address: Address) -> Entry:
        return encode_name(address.name), partial(self._address, address)

    def _address(self, address: Address) -> Node:
        make = partial(AddressDirectory, self.context, self.inode, address.name)
        return self.enter(encode_name(address.name), make)
