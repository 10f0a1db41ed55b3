"""Settings and attributes of addresses, queues and messages, through the mount."""

from __future__ import annotations

import errno
import os

import pytest

from tests.writing.conftest import Address, Remount, bodies, errno_of, shell
from tests.writing.test_removing import publish


@pytest.mark.rule("S-85")
def test_settings_of_an_address_are_kept_by_its_name(address: Address) -> None:
    shell("rmdir *", address.path)
    os.setxattr(address.path, "user.journalfs.max-size-messages", b"7")
    os.setxattr(address.path, "user.journalfs.paused", b"true")
    queue = address.path / f"{address.name}-third"
    queue.mkdir()
    os.setxattr(queue, "user.journalfs.max-consumers", b"7")
    queue.rmdir()
    address.path.rmdir()
    assert errno_of(os.removexattr, address.path, "user.journalfs.max-size-messages") == errno.ENOENT
    queue.mkdir(parents=True)
    assert os.getxattr(address.path, "user.journalfs.max-size-messages") == b"7"
    assert os.getxattr(address.path, "user.journalfs.paused") == b"true"
    assert os.getxattr(queue, "user.journalfs.max-consumers") == b"7"
    os.removexattr(address.path, "user.journalfs.max-size-messages")
    assert errno_of(os.getxattr, address.path, "user.journalfs.max-size-messages") == errno.ENODATA
    shell("rmdir * $PWD && mkdir $PWD", address.path)
    assert errno_of(os.getxattr, address.path, "user.journalfs.max-size-messages") == errno.ENODATA


@pytest.mark.rule("S-87")
def test_settings_are_changed_through_attributes_and_files(remount: Remount) -> None:
    mount = remount()
    address = Address(mount)
    queue = address.first.path
    os.setxattr(queue, "user.journalfs.ring-size", b"7")
    assert os.getxattr(queue, "user.journalfs.ring-size") == b"7"
    os.setxattr(address.path, "user.journalfs.max-size-bytes", b"1000")
    shell("echo 'exclusive = true' > .settings", queue)
    shell("printf 'max-delivery-attempts = 3' >> .settings", address.path)
    copied = (queue / ".settings").read_text().replace("max-consumers = -1", "max-consumers = 4")
    (queue / ".settings").write_text(copied)
    for _ in range(2):
        assert "exclusive = true" in (queue / ".settings").read_text()
        assert os.getxattr(queue, "user.journalfs.max-consumers") == b"4"
        assert os.getxattr(queue, "user.journalfs.ring-size") == b"7"
        assert os.getxattr(address.path, "user.journalfs.max-size-bytes") == b"1000"
        assert os.getxattr(address.path, "user.journalfs.max-delivery-attempts") == b"3"
        mount = remount()


@pytest.mark.rule("S-34", "S-87")
def test_a_paused_address_says_so(remount: Remount) -> None:
    """By its attribute, which is there while it is paused, and by its settings."""
    name = "user.journalfs.paused"
    address = Address(remount())
    settings, of_queue = address.path / ".settings", address.first.path / ".settings"
    assert settings.read_text().startswith("paused = false\n")
    assert name not in os.listxattr(address.path)
    os.setxattr(address.path, name, b"true")
    remount()
    assert (os.getxattr(address.path, name), name in os.listxattr(address.path)) == (b"true", True)
    assert settings.read_text().startswith("paused = true\n")
    os.removexattr(address.path, name)
    assert errno_of(os.getxattr, address.path, name) == errno.ENODATA
    of_queue.write_text(of_queue.read_text().replace("[address]\npaused = false", "[address]\npaused = true"))
    assert os.getxattr(address.path, name) == b"true"
    settings.write_text(settings.read_text().replace("paused = true", "paused = false"))
    assert name not in os.listxattr(address.path)


@pytest.mark.rule("S-87")
def test_attributes_are_set_to_what_they_are(address: Address) -> None:
    """As `mv` of a directory to another mount does with all of them."""
    os.setxattr(address.path, "user.journalfs.max-size-messages", b"7")
    for path in (address.path, address.first.path):
        before = {name: os.getxattr(path, name) for name in os.listxattr(path)}
        assert before
        for name, value in before.items():
            os.setxattr(path, name, value)
        assert {name: os.getxattr(path, name) for name in os.listxattr(path)} == before
    for path, name in ((address.path, "routing-types"), (address.first.path, "internal")):
        assert errno_of(os.setxattr, path, f"user.journalfs.{name}", b"other") == errno.EINVAL
    assert errno_of(os.setxattr, address.path, "user.journalfs.none-such", b"") == errno.EINVAL


@pytest.mark.rule("S-87")
def test_removing_an_attribute_takes_a_setting_back(remount: Remount) -> None:
    mount = remount()
    address = Address(mount)
    queue = address.first.path
    default = os.getxattr(queue, "user.journalfs.max-consumers")
    os.setxattr(address.path, "user.journalfs.default-ring-size", b"50")
    os.setxattr(address.path, "user.journalfs.max-size-bytes", b"1000")
    for name, value in (
        ("max-consumers", b"3"),
        ("ring-size", b"7"),
        ("filter", b"a = 1"),
        ("paused", b"true"),
    ):
        os.setxattr(queue, f"user.journalfs.{name}", value)
        os.removexattr(queue, f"user.journalfs.{name}")
    os.removexattr(address.path, "user.journalfs.max-size-bytes")
    for _ in range(2):
        assert os.getxattr(queue, "user.journalfs.max-consumers") == default
        assert os.getxattr(queue, "user.journalfs.ring-size") == b"50"
        assert os.getxattr(queue, "user.journalfs.paused") == b"false"
        assert "user.journalfs.filter" not in os.listxattr(queue)
        assert errno_of(os.removexattr, queue, "user.journalfs.filter") == errno.ENODATA
        assert "user.journalfs.max-size-bytes" not in os.listxattr(address.path)
        assert os.getxattr(address.path, "user.journalfs.default-ring-size") == b"50"
        mount = remount()
    os.removexattr(address.path, "user.journalfs.default-ring-size")
    assert errno_of(os.removexattr, address.path, "user.journalfs.default-ring-size") == errno.ENODATA


@pytest.mark.rule("S-87")
def test_settings_that_are_refused(address: Address) -> None:
    queue = address.first.path
    assert errno_of(os.setxattr, queue, "user.journalfs.nonsense", b"1") == errno.EINVAL
    assert errno_of(os.setxattr, queue, "user.journalfs.ring-size", b"many") == errno.EINVAL
    assert errno_of(os.setxattr, queue, "user.other", b"1") == errno.EOPNOTSUPP
    assert errno_of(os.removexattr, queue, "user.journalfs.nonsense") == errno.ENODATA
    assert errno_of(os.removexattr, queue, "user.journalfs.auto-created") == errno.EPERM
    assert errno_of(os.removexattr, address.path, "user.journalfs.routing-types") == errno.EPERM
    assert errno_of(os.removexattr, address.path, "user.journalfs.max-size-bytes") == errno.ENODATA
    shell("echo 'nonsense = 1' > .settings", queue, succeeds=False)
    shell("echo 'no toml' > .settings", queue, succeeds=False)
    assert "no TOML" in address.refusals()[-1][1]
    assert all(reason for _, reason in address.refusals())


@pytest.mark.rule("S-87")
@pytest.mark.parametrize(
    "command",
    [
        r"printf 'ring-size = 1\nfoo = 1\n' > .settings",
        r"printf 'ring-size = 1\nring-size = 2\n' > .settings",
        r"printf '[address]\nmax-delivery-attempts = 3\nfoo = 1\n' > .settings",
        r"printf 'ring-size = 1\n[address]\nmax-delivery-attempts = many\n' > .settings",
        r"printf 'ring-size = 1\nfoo = 1' | cat > .settings",
        r"{ echo 'ring-size = 1'; cat /dev/null; echo 'foo = 1'; } > .settings",
        r"{ echo 'ring-size = 1'; cat /dev/null; echo 'foo = 1'; echo 'exclusive = true'; } > .settings",
        r"printf 'ring-size = 1\nfoo = 1\n' > ../in.toml && cp ../in.toml .settings",
    ],
)
def test_a_settings_file_is_taken_as_one_or_not_at_all(address: Address, command: str) -> None:
    publish(address, "one", "two")
    queue = address.first.path
    before = (queue / ".settings").read_text()
    shell(command.replace("../in.toml", "_in.toml"), queue, succeeds=False)
    assert (queue / ".settings").read_text() == before
    assert bodies(address.first) == ["one", "two"]
    assert "takes effect" in address.refusals()[-1][1]


@pytest.mark.rule("S-87")
def test_a_settings_file_takes_effect_when_it_is_closed(address: Address) -> None:
    queue = address.first.path
    with (queue / ".settings").open("w") as file:
        for line in ("ring-size = 7\n", "exclusive = true\n", "[address]\n", "max-delivery-attempts = 3\n"):
            file.write(line)
            file.flush()
        assert os.getxattr(queue, "user.journalfs.ring-size") == b"-1"
    assert os.getxattr(queue, "user.journalfs.ring-size") == b"7"
    assert os.getxattr(queue, "user.journalfs.exclusive") == b"true"
    assert os.getxattr(address.path, "user.journalfs.max-delivery-attempts") == b"3"
    shell(r"printf 'ring-size = 8\nexclusive = false\n' > .settings; grep 'ring-size = 8' .settings", queue)
    assert os.getxattr(queue, "user.journalfs.exclusive") == b"false"


@pytest.mark.rule("S-87")
def test_delivery_count_and_schedule_of_a_message_are_attributes(address: Address) -> None:
    (address.first.path / "in.txt").write_text("x\n")
    (name,) = address.first.listed()
    path = address.first.path / ".messages" / name
    os.setxattr(path, "user.journalfs.deliveryCount", b"4")
    assert os.getxattr(path, "user.journalfs.deliveryCount") == b"4"
    assert address.first.lines()[0]["deliveryCount"] == 4
    later = 4_000_000_000_000
    os.setxattr(path, "user.journalfs.scheduledTime", str(later).encode())
    assert address.first.lines()[0]["scheduledTime"] == later
    for name in ("deliveryCount", "scheduledTime"):
        os.removexattr(path, f"user.journalfs.{name}")
        assert errno_of(os.removexattr, path, f"user.journalfs.{name}") == errno.ENODATA
        assert name not in address.first.lines()[0]
    assert errno_of(os.removexattr, path, "user.journalfs.priority") == errno.EPERM
    assert errno_of(os.setxattr, path, "user.journalfs.priority", b"9") == errno.EINVAL
    assert errno_of(os.setxattr, path, "user.journalfs.deliveryCount", b"many") == errno.EINVAL
    assert address.refusals()[-1][0] == f"{address.name}-first/.messages/{path.name}: EINVAL"
