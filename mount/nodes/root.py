"""The root of a store: one directory for each address, and `.journalfs`, which is reached by name and not
listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from journalfs.api import OWNER_ALONE, Address, Permissions
from journalfs_mount.names.grammar import CONTROL_DIRECTORY, encode_name
from journalfs_mount.names.naming import find_named, new_name
from journalfs_mount.nodes.address import AddressDirectory
from journalfs_mount.nodes.base import Entry, MadeEntries, MountContext, Node
from journalfs_mount.nodes.destination import DestinationDirectory
from journalfs_mount.nodes.inodes import ROOT
from journalfs_mount.nodes.report import ControlDirectory
from journalfs_mount.nodes.staging import PlaceName
from journalfs_mount.nodes.virtual import VirtualDirectoryNode
from journalfs_mount.nodes.written import Destination


class ControlNode(VirtualDirectoryNode):
    """`.journalfs/`: the files that the store generates."""

    private: ClassVar[bool] = True

    def permissions(self) -> Permissions | None:
        """Return permissions for the owner alone where any were set: the content is of all addresses, so a
        user whom one of them keeps out must not read it.
        """
        return OWNER_ALONE if self.context.kept_permissions else None


class StoreDirectory(DestinationDirectory):
    """The root of a store: the mount's, a snapshot's, or of what was removed."""

    control_type: ClassVar[type[ControlNode]] = ControlNode
    lasting: ClassVar[bool] = True

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
        self.context.report.made(name)
        self.note_maker(Destination(address_name, None))
        return self.child(name)

    def find(self, name: bytes) -> Node | None:
        if name == CONTROL_DIRECTORY:
            return self.enter(name, self._made_control)
        store = self.context.store
        address = find_named(name, store.address, store.addresses)
        return None if address is None else self._address(address)

    def _made_control(self) -> Node:
        if self._control is None:
            self._control = ControlDirectory(self.context.store.control(), self.context.report)
        return self.control_type(self.context, self.inode, lambda: self._control)

    def entries(self) -> Sequence[Entry]:
        return MadeEntries(self.context.store.addresses(), self._entry)

    def _entry(self, address: Address) -> Entry:
        return encode_name(address.name), partial(self._address, address)

    def _address(self, address: Address) -> Node:
        make = partial(AddressDirectory, self.context, self.inode, address.name)
        return self.enter(encode_name(address.name), make)
