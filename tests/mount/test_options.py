"""The `-o` list, inode numbers and the table of nodes: no kernel needed."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journalfs.errors import WrongCall
from journalfs.ids import Inode, MessageId
from journalfs_mount.names.grammar import PartName, format_part_name
from journalfs_mount.nodes.inodes import MESSAGE_BIT, NodeTable, message_inode, message_of, node_key
from journalfs_mount.options import MountOptions, described, described_words, parse_options
from tests.mounting import journalfs


def test_words_of_fstab_are_accepted_and_later_words_win() -> None:
    chosen = parse_options(["defaults,nofail,_netdev,x-systemd.automount,comment=mine", "ro,rw,ro"])
    assert MountOptions(**chosen).read_only
    assert not MountOptions(**parse_options(["ro,rw"])).read_only
    assert not MountOptions(**parse_options(["nofollow"])).follow
    assert MountOptions(**parse_options(["nofollow,follow"])).follow


def test_values_are_checked() -> None:
    options = MountOptions(**parse_options(["uid=7,gid=8,umask=027,loop=stock,noexec"]))
    assert (options.uid, options.gid, options.umask, options.loop) == (7, 8, 0o27, "stock")
    assert options.front == "off"
    assert "noexec" in options.fuse_options("/store")
    for wrong in ("uid=x", "uid=-1", "umask=9", "umask=1000", "loop=", "uid", "ro=1"):
        with pytest.raises(WrongCall, match="option"):
            parse_options([wrong])


def test_help_lists_every_option_that_there_is() -> None:
    """No part of `MountOptions` is without a word for it in the list, and the parser takes each word."""
    listed = " ".join(journalfs("mount", "--help").stdout.partition("Mount options")[2].split())
    chosen: dict[str, Any] = {}
    for term, meaning in described():
        assert f"{term} {meaning}" in listed
        name, has_value, values = term.partition("=")
        for value in values.split("|"):
            chosen |= parse_options([f"{name}={value or 7}" if has_value else name])
    for meaning, words in described_words():
        assert f"{meaning} {', '.join(words)}" in listed
        chosen |= parse_options(words)
    assert chosen.keys() == {field.name for field in fields(MountOptions)}
    assert {"browse", "sync=always|close|none", "uid="} <= {term for term, _ in described()}


def test_who_wants_to_remount_is_told_how() -> None:
    with pytest.raises(WrongCall, match="mount -i -o remount,ro"):
        parse_options(["remount,ro"])


def test_a_mistyped_word_is_named_with_its_neighbour() -> None:
    with pytest.raises(WrongCall, match=r"unknown mount option 'noxatr'; did you mean 'noxattr'\?"):
        parse_options(["ro,noxatr"])
    assert parse_options(["ro,noxatr"], ignore_unknown=True) == {"read_only": True, "kernel_told": True}


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("/plain path", "/plain path"),
        ("/a,b", r"/a\054b"),
        ("/ä", r"/\303\244"),
        ("/back\\slash", r"/back\134slash"),
        ("/new\nline", r"/new\012line"),
        ("/not \udcff UTF-8", r"/not \377 UTF-8"),
    ],
)
def test_a_source_is_written_so_that_it_cannot_break_the_option_list(source: str, word: str) -> None:
    assert f"fsname={word}" in MountOptions().fuse_options(source)


def test_permissions_are_the_kernels_to_enforce_where_it_lets_others_in() -> None:
    words = MountOptions(read_only=True, allow_other=True).fuse_options("/s")
    assert {"default_permissions", "allow_other", "nosuid", "nodev", "ro"} <= words
    for read_only in (True, False):
        options = MountOptions(read_only=read_only, allow_other=True)
        assert "default_permissions" in options.fuse_options("/s")


@pytest.mark.rule("S-138")
def test_the_kernel_refuses_changes_only_where_it_is_asked_to_or_has_to() -> None:
    alone = MountOptions(read_only=True)
    assert (alone.kernel_refuses, alone.refuses_changes) == (False, True)
    assert {"rw", "default_permissions"} & alone.fuse_options("/s") == {"rw"}
    asked = MountOptions(**parse_options(["ro"]))
    assert (asked.kernel_refuses, asked.refuses_changes) == (True, False)
    assert {"ro", "default_permissions"} <= asked.fuse_options("/s")
    taken_back = MountOptions(**parse_options(["ro,rw"]))
    assert not taken_back.kernel_refuses
    assert not taken_back.refuses_changes


@given(slot=st.integers(0, (1 << 20) - 1), message=st.integers(0, (1 << 42) - 1))
def test_a_messages_number_can_be_taken_apart(slot: int, message: int) -> None:
    inode = message_inode(slot, MessageId(message))
    assert inode is not None
    assert inode & MESSAGE_BIT
    assert 1 < inode < 1 << 63
    assert message_of(inode) == (slot, message)


@given(slot=st.integers(-(1 << 40), 1 << 40), message=st.integers(-(1 << 63), (1 << 63) - 1))
def test_what_does_not_fit_gets_no_number(slot: int, message: int) -> None:
    fits = 0 <= slot < 1 << 20 and 0 <= message < 1 << 42
    assert (message_inode(slot, MessageId(message)) is not None) == fits


class _Node:
    inode: Inode
    key: bytes
    lookups: int


def test_a_node_lives_until_every_lookup_is_forgotten() -> None:
    table: NodeTable[_Node] = NodeTable(_Node(), lambda inode: _Node())
    key = node_key(1, b"orders")
    node = table.enter(key, _Node)
    node.lookups += 3
    assert table.enter(key, _Node) is node
    assert not node.inode & MESSAGE_BIT
    table.forget([(node.inode, 2), (MESSAGE_BIT | 5, 9), (1, 10**9)])
    assert table.node(node.inode) is node
    table.forget([(node.inode, 1)])
    assert table.node(node.inode) is None
    assert table.node(1) is not None
    assert table.enter(key, _Node).inode == node.inode, "the same thing gets the same number again"


def test_versions_and_parents_make_other_nodes() -> None:
    keys = {node_key(1, b"a"), node_key(2, b"a"), node_key(1, b"a", b"v"), node_key(1, b"av")}
    assert len(keys) == 4


def test_two_keys_with_one_hash_get_two_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeTable, "_places", staticmethod(lambda key: iter(range(100, 200))))
    table: NodeTable[_Node] = NodeTable(_Node(), lambda inode: _Node())
    first, second = table.enter(b"first", _Node), table.enter(b"second", _Node)
    assert (first.inode, second.inode) == (100, 101)
    assert table.enter(b"first", _Node) is first
    assert table.known(b"second") is second


@given(parent=st.integers(1, (1 << 63) - 1), first=st.integers(1, 9_999_999_998), version=st.binary())
def test_numbers_of_parts_rise_with_them(parent: int, first: int, version: bytes) -> None:
    """And so do those of what becomes parts."""
    table: NodeTable[_Node] = NodeTable(_Node(), lambda inode: _Node())
    names = [
        format_part_name(PartName(1, 23, number, number == first)) for number in (first - 1, first, first + 1)
    ]
    numbers = [table.enter(node_key(parent, name, version), _Node).inode for name in names]
    assert numbers == sorted(set(numbers))
    assert MESSAGE_BIT > numbers[-1] > numbers[0] > 1
    assert numbers[0] < table.enter(node_key(parent, names[1], version + b"2"), _Node).inode < numbers[2]


def test_what_is_removed_and_made_again_has_another_number() -> None:
    """As long as the kernel has the removed one. Afterwards it has the number that any mount gives it."""
    table: NodeTable[_Node] = NodeTable(_Node(), lambda inode: _Node())
    key = node_key(1, b"name")
    made = [table.enter(key, _Node)]
    numbers = [made[0].inode]
    for _ in range(3):
        made[-1].lookups = 1
        left = _Node()
        table.retire(made[-1], left)
        assert table.node(numbers[-1]) is left
        made.append(table.enter(key, _Node))
        numbers.append(made[-1].inode)
        assert table.known(key) is made[-1]
        assert table.enter(key, _Node) is made[-1]
    assert len(set(numbers)) == 4
    made[-1].lookups = 1
    table.forget([(number, 1) for number in numbers[:2]])
    assert table.enter(key, _Node) is made[-1]
    table.forget([(number, 1) for number in numbers[2:]])
    assert len(table) == 1
    again = table.enter(key, _Node)
    assert again.inode == numbers[0]
    table.drop_unused(again)
    assert len(table) == 1


@pytest.mark.rule("S-40")
def test_names_stand_for_users_and_groups() -> None:
    root = parse_options(["uid=root,gid=root,user=somebody,file_mode=640,dir_mode=750"])
    assert root == {"uid": 0, "gid": 0, "file_mode": 0o640, "dir_mode": 0o750}
    with pytest.raises(WrongCall, match="there is no group of this name"):
        parse_options(["gid=no such group"])
