"""Names of addresses and queues that cannot be file names as they are."""

from __future__ import annotations

import os

import pytest

from journalfs_mount.names.grammar import encode_name
from tests.mount.conftest import MountFake
from tests.mount.serve_fake import LONG_NAME

pytestmark = pytest.mark.mount


def test_every_listed_name_can_be_opened_and_leads_to_its_queue(mount_fake: MountFake) -> None:
    mounted = mount_fake("names")
    listed = os.listdir(os.fsencode(mounted.path))
    odd = ("a/b", ".hidden", "_staged", "100%", "ümläut", "line\nbreak", "a~0123456789abcdef", LONG_NAME)
    assert set(listed) == {encode_name(name) for name in odd}
    for name in listed:
        assert len(name) <= 255
        folder = os.path.join(os.fsencode(mounted.path), name, name)
        (part,) = (one for one in os.listdir(folder) if one.startswith(b"part-"))
        with open(os.path.join(folder, part), "rb") as file:
            assert b'"id": 1' in file.read()


@pytest.mark.parametrize("name", ["a%2fb", "a%2", "%41", "_x", ".git", "a~0123456789abcdef", "nothing"])
def test_a_name_has_one_spelling(mount_fake: MountFake, name: str) -> None:
    mounted = mount_fake("names")
    with pytest.raises(FileNotFoundError):
        os.stat(mounted.path / name)


def test_too_long_a_name_is_refused_as_such(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    with pytest.raises(OSError, match="File name too long"):
        os.stat(mounted.path / ("x" * 256))


def test_a_selector_may_be_longer_than_a_file_name(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    color = "x" * 600
    view = mounted.path / f"orders/billing/.where/color = '{color}'"
    assert (view / ".all.jsonl").read_bytes() == b""
