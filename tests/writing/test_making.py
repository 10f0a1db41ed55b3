"""What `mkdir` makes: of which kind queues are, and why it refuses."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.writing.conftest import Address, errno_of, shell

KINDS = "user.journalfs.routing-types"


def kind(queue: Path) -> bytes:
    return os.getxattr(queue, "user.journalfs.routing-type")


def why(address: Address, path: str) -> str:
    """Reason of the last refusal of a path of the mount."""
    said = [event for event in address.mount.events() if event["event"] == "refused"]
    return str([event["reason"] for event in said if event["what"].startswith(path)][-1])


@pytest.mark.rule("S-170")
def test_a_queue_named_as_its_address_is_point_to_point(address: Address) -> None:
    root = address.path.parent
    shell("mkdir -p point/point topic/one topic/two topic/topic", root)
    assert kind(root / "point" / "point") == b"ANYCAST"
    assert {kind(root / "topic" / name) for name in ("one", "two", "topic")} == {b"MULTICAST"}
    assert os.getxattr(root / "point", KINDS) == b"ANYCAST"


@pytest.mark.rule("S-170")
def test_a_second_queue_takes_no_messages_unless_that_is_said(address: Address) -> None:
    root = address.path.parent
    shell("mkdir -p alone/alone", root)
    assert errno_of((root / "alone" / "audit").mkdir) == errno.EINVAL
    assert "would take every other message" in why(address, "alone/audit")
    os.setxattr(root / "alone", KINDS, b"ANYCAST,MULTICAST")
    (root / "alone" / "audit").mkdir()
    assert kind(root / "alone" / "audit") == b"MULTICAST"
    shell("mkdir -p shared/shared", root)
    os.setxattr(root / "shared", "user.journalfs.default-queue-routing-type", b"ANYCAST")
    (root / "shared" / "other").mkdir()
    assert kind(root / "shared" / "other") == b"ANYCAST"


@pytest.mark.rule("S-170")
def test_a_name_that_another_address_has_is_explained(address: Address) -> None:
    root = address.path.parent
    shell("mkdir -p named/taken elsewhere", root)
    assert errno_of((root / "elsewhere" / "taken").mkdir) == errno.EEXIST
    assert "there is a queue of this name bound to named" in why(address, "elsewhere/taken")
