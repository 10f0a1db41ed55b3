"""Transactions as directories of a mount: begun, filled, committed, rolled back, prepared and decided."""

from __future__ import annotations

import base64
import errno
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.mounting import MountedStore, QueueOnDisk, journalfs, mounted_for_writing
from tests.writing.conftest import Address, bodies, errno_of, new_store, shell

XID = base64.b64encode(b"branch-global" + bytes((7, 0, 0, 0))).decode()


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MountedStore]:
    folder = tmp_path_factory.mktemp("transactions")
    with mounted_for_writing(new_store(folder / "store"), folder / "mnt") as mounted:
        yield mounted


@pytest.fixture
def address(mount: MountedStore) -> Address:
    address = Address(mount)
    (address.first.path / "in.txt").write_text("one\ntwo\nthree\n")
    return address


def transactions(mount: MountedStore) -> Path:
    return mount.path / ".journalfs/transactions"


def begun(address: Address) -> Path:
    path = transactions(address.mount) / f"t-{address.name}"
    path.mkdir()
    return path


def within(transaction: Path, place: Path, address: Address) -> Path:
    """A place of the mount, as it is below a transaction."""
    return transaction / place.relative_to(address.mount.path)


def message(address: Address, number: int) -> Path:
    return message_of(address.first, number)


def message_of(queue: QueueOnDisk, number: int = 0) -> Path:
    return queue.path / ".messages" / queue.listed()[number]


def end(transaction: Path, how: str) -> None:
    transaction.rename(transaction.parent / how / transaction.name)


def refusal(mount: MountedStore) -> str:
    reason: str = [event for event in mount.events() if event["event"] == "refused"][-1]["reason"]
    return reason


@pytest.mark.rule("S-258", "S-259")
def test_what_is_below_it_happens_at_its_end_and_not_before(address: Address) -> None:
    transaction = begun(address)
    first, second = (within(transaction, one.path, address) for one in (address.first, address.second))
    (second / "in.txt").write_text("four\nfive\n")
    (within(transaction, address.path, address) / "in.json").write_text('{"six": 6}')
    message(address, 0).rename(transaction / "x")
    message(address, 0).rename(second / "moved")
    assert bodies(address.first) == ["three"]
    assert bodies(address.second) == []
    delivering = address.first.path / ".delivering/.messages"
    assert len(os.listdir(delivering)) == 2
    assert shell("timeout 1 cat .take; true", address.first.path).count("body") == 1, "the one it has not"
    held, moved = os.listdir(first), set(os.listdir(second)) - {"in.txt"}
    assert [(first / name).read_text() for name in held] == ["one"]
    assert [(second / name).read_text() for name in moved] == ["two"]
    assert errno_of((delivering / held[0]).unlink) == errno.EBUSY
    operations = [
        json.loads(line)["operation"] for line in (transaction / "operations.jsonl").open().readlines()
    ]
    assert operations == ["ack", "move"]
    end(transaction, "committed")
    assert not transaction.exists()
    assert os.listdir(delivering) == []
    assert bodies(address.first) == ['{"six": 6}']
    assert sorted(bodies(address.second)) == sorted(["four", "five", '{"six": 6}', "two"])


@pytest.mark.rule("S-260")
@pytest.mark.parametrize("how", ["rmdir {t}", "rm -r {t}", "mv {t} rolled-back/"])
def test_rolled_back_it_gives_everything_back(address: Address, how: str) -> None:
    transaction = begun(address)
    (within(transaction, address.second.path, address) / "in.txt").write_text("four\n")
    shell(f"mv *.jsonl {transaction}/", address.first.path)
    assert bodies(address.first) == []
    assert errno_of(address.first.path.rmdir) in {errno.EBUSY, errno.ENOTEMPTY}
    shell(how.format(t=transaction.name), transaction.parent)
    assert not transaction.exists()
    assert bodies(address.first) == ["one", "two", "three"]
    assert bodies(address.second) == []
    assert shell("head -n 3 .take", address.first.path).count("body") == 3, "and consumers get it"


@pytest.mark.rule("S-260")
def test_single_messages_are_given_back(address: Address) -> None:
    transaction = begun(address)
    shell(f"mv *.jsonl {transaction}/", address.first.path)
    first = within(transaction, address.first.path, address)
    one, two, three = sorted(os.listdir(first))
    (first / one).unlink()
    (first / two).rename(address.first.path / two)
    assert errno_of((first / three).rename, address.second.path / three) == errno.EPERM
    assert bodies(address.first) == ["one", "two"]
    end(transaction, "committed")
    assert bodies(address.first) == ["one", "two"]


Wrong = Callable[[Path, Address], object]
_WRONG: dict[str, tuple[Wrong, int, str]] = {
    "begun already": (lambda t, a: t.mkdir(), errno.EEXIST, ""),
    "unknown address": (lambda t, a: (t / "nowhere").mkdir(), errno.ENOENT, "make one there first"),
    "unknown queue": (lambda t, a: (t / a.name / "nowhere").mkdir(), errno.ENOENT, "make one there first"),
    "another name": (lambda t, a: t.rename(t.parent / "committed/other"), errno.EPERM, "keeps its name"),
    "no xid": (lambda t, a: t.rename(t.parent / "prepared/other"), errno.EPERM, "no XA id"),
    "no end": (lambda t, a: t.rename(a.path / "x"), errno.EPERM, "renamed into committed/"),
}


@pytest.mark.rule("S-261")
@pytest.mark.parametrize("wrong", _WRONG)
def test_what_is_wrong_is_said_and_changes_nothing(address: Address, wrong: str) -> None:
    transaction = begun(address)
    (within(transaction, address.second.path, address) / "in.txt").write_text("four\n")
    action, number, reason = _WRONG[wrong]
    assert errno_of(action, transaction, address) == number
    assert not reason or reason in refusal(address.mount)
    end(transaction, "committed")
    assert bodies(address.second) == ["four"]


@pytest.mark.rule("S-261")
def test_a_commit_that_fails_does_nothing_and_can_be_tried_again(address: Address) -> None:
    transaction = begun(address)
    second = within(transaction, address.second.path, address)
    (second / "a.txt").write_text("four\n")
    (second / "b.jsonl").write_text("no envelope\n")
    message(address, 0).rename(second / "x")
    assert errno_of(end, transaction, "committed") == errno.EBADMSG
    assert "b.jsonl" in refusal(address.mount)
    (second / "b.jsonl").unlink()
    (second / ".hidden").write_text("x")
    assert errno_of(end, transaction, "committed") == errno.EPERM
    (second / ".hidden").unlink()
    with (second / "c.txt").open("w") as file:
        file.write("five\n")
        file.flush()
        assert errno_of(end, transaction, "committed") == errno.EBUSY
    os.setxattr(address.path, "user.journalfs.address-full-policy", b"FAIL")
    os.setxattr(address.path, "user.journalfs.max-size-messages", b"3")
    assert errno_of(end, transaction, "committed") == errno.EDQUOT
    assert bodies(address.first) == ["two", "three"]
    assert bodies(address.second) == []
    os.removexattr(address.path, "user.journalfs.max-size-messages")
    end(transaction, "committed")
    assert bodies(address.second) == ["four", "five", "one"]


@pytest.mark.rule("S-259")
@pytest.mark.parametrize("how", ["committed", "rolled-back"])
def test_what_is_written_after_its_end_is_refused(address: Address, how: str) -> None:
    """Every `close` of a duplicate, a child's too, says that what came before is whole."""
    transaction = begun(address)
    folder = within(transaction, address.second.path, address) / "folder"
    folder.mkdir()
    written = os.open(folder / "in.txt", os.O_WRONLY | os.O_CREAT)
    os.write(written, b"four\n")
    os.close(os.dup(written))
    end(transaction, how)
    assert errno_of(os.write, written, b"five\n") == errno.ESTALE
    os.close(written)
    assert bodies(address.second) == (["four"] if how == "committed" else [])


@pytest.mark.rule("S-261")
def test_a_queue_that_is_gone_fails_the_commit(address: Address) -> None:
    transaction = begun(address)
    (within(transaction, address.second.path, address) / "a.txt").write_text("four\n")
    message(address, 0).rename(transaction / "x")
    address.second.path.rmdir()
    assert errno_of(end, transaction, "committed") == errno.ENOENT
    assert bodies(address.first) == ["two", "three"]
    transaction.rmdir()
    assert bodies(address.first) == ["one", "two", "three"]


@pytest.mark.rule("S-263", "S-264")
@pytest.mark.parametrize("how", ["committed", "rolled-back", "rmdir"])
def test_it_is_prepared_and_decided_later(address: Address, how: str) -> None:
    transaction, prepared = begun(address), transactions(address.mount) / XID
    second = within(transaction, address.second.path, address)
    (second / "in.txt").write_text("four\n" + "large " * 40_000)
    message(address, 0).rename(second / "x")
    message(address, 0).rename(transaction / "x")
    transaction.rename(prepared.parent / "prepared" / XID)
    assert not transaction.exists()
    assert XID in os.listdir(prepared.parent / "prepared")
    status = json.loads((prepared / "status.json").read_text())
    assert (status["state"], status["formatId"], status["xid"]) == ("prepared", 7, XID)
    kinds = [json.loads(line)["operation"] for line in (prepared / "operations.jsonl").open()]
    assert sorted(kinds) == ["ack", "ack", "send", "send", "send"]
    assert (bodies(address.first), bodies(address.second)) == (["three"], [])
    again = begun(Address(address.mount))
    assert errno_of(again.rename, prepared.parent / "prepared" / XID) in {errno.EEXIST, errno.ENOTEMPTY}
    again.rmdir()
    if how == "rmdir":
        prepared.rmdir()
        how = "rolled-back"
    else:
        end(prepared, how)
    assert not prepared.exists()
    if how == "committed":
        assert bodies(address.first) == ["three"]
        assert sorted(bodies(address.second))[:2] == ["four", "large " * 40_000]
        assert len(bodies(address.second)) == 3
    else:
        assert (bodies(address.first), bodies(address.second)) == (["one", "two", "three"], [])
    assert XID in os.listdir(prepared.parent / how)
    (prepared.parent / how / XID).rmdir()
    assert os.listdir(prepared.parent / how) == []


WHOLE = "7.Z2xvYmFs.YnJhbmNoLQ"


@pytest.mark.rule("S-263", "S-264")
def test_a_whole_name_says_where_the_branch_ends(address: Address) -> None:
    """The plain one shows it, until another is printed alike: then each is shown by its whole name."""
    root, other = transactions(address.mount), "7.YnJhbmNoLWdsb2JhbA."
    prepared, committed = root / "prepared", root / "committed"
    begun(address).rename(prepared / WHOLE)
    status = json.loads((prepared / WHOLE / "status.json").read_text())
    assert (status["name"], status["xid"]) == (WHOLE, XID)
    assert (status["globalTransactionId"], status["branchQualifier"]) == ("global", "branch-")
    assert os.listdir(prepared) == [XID]
    second = begun(address)
    for taken in (WHOLE, XID):
        assert errno_of(second.rename, prepared / taken) in {errno.EEXIST, errno.ENOTEMPTY}
    second.rename(prepared / other)
    assert {*os.listdir(prepared)} == {WHOLE, other}
    third = begun(address)
    assert errno_of(third.rename, prepared / XID) in {errno.EEXIST, errno.ENOTEMPTY}
    third.rmdir()
    for name in (WHOLE, other):
        (prepared / name).rename(committed / name)
    assert os.listdir(prepared) == []
    assert {*os.listdir(committed)} == {WHOLE, other}
    (committed / other).rmdir()
    assert os.listdir(committed) == [XID]
    (committed / WHOLE).rmdir()
    assert os.listdir(committed) == []


@pytest.mark.rule("S-260")
def test_one_message_of_two_queues_goes_to_one_queue_once(address: Address) -> None:
    """Both have it by the same id, and so would the directory."""
    (address.path / "in.txt").write_text("four\nfive\n")
    transaction, third = begun(address), address.queue("third")
    into = within(transaction, third.path, address)
    shell(f"mv *.jsonl {into}/", address.first.path)
    assert errno_of(message_of(address.second).rename, into / "x") == errno.EEXIST
    assert "a transaction of its own" in refusal(address.mount)
    assert bodies(address.second) == ["four", "five"]
    transaction.rmdir()
    assert bodies(address.first) == ["one", "two", "three", "four", "five"]


@pytest.mark.rule("S-263")
@pytest.mark.parametrize("paged", [False, True])
def test_what_is_not_due_is_not_prepared(address: Address, *, paged: bool) -> None:
    """A broker finds none of it that a prepared transaction has acknowledged, and does not start."""
    if paged:
        os.setxattr(address.path, "user.journalfs.max-size-messages", b"1")
    later = {"type": "text", "scheduledTime": 4_000_000_000_000, "body": "later"}
    (address.first.path / "in.jsonl").write_text(json.dumps(later) + "\n")
    transaction, scheduled = begun(address), address.first.path / ".scheduled/.messages"
    (name,) = os.listdir(scheduled)
    (scheduled / name).rename(within(transaction, address.second.path, address) / name)
    prepared = transactions(address.mount) / "prepared" / XID
    assert errno_of(transaction.rename, prepared) == errno.EPERM
    assert "is not due" in refusal(address.mount)
    end(transaction, "committed")
    assert os.listdir(scheduled) == []
    assert len(os.listdir(address.second.path / ".scheduled/.messages")) == 1


@pytest.mark.rule("S-263")
def test_what_it_consumed_of_another_that_paged_is_no_send_of_its(address: Address) -> None:
    """Its journal names the other transaction, too, of which it consumed one."""
    os.setxattr(address.path, "user.journalfs.max-size-messages", b"1")
    other = begun(address)
    (within(other, address.first.path, address) / "in.txt").write_text("four\nfive\nsix\n")
    end(other, "committed")
    transaction, prepared = begun(address), transactions(address.mount) / XID
    message(address, 4).rename(transaction / "x")
    transaction.rename(prepared.parent / "prepared" / XID)
    operations = [json.loads(line) for line in (prepared / "operations.jsonl").open()]
    assert [(one["operation"], one["message"]["body"]) for one in operations] == [("ack", "five")]
    end(prepared, "rolled-back")
    (prepared.parent / "rolled-back" / XID).rmdir()
    assert bodies(address.first) == ["one", "two", "three", "four", "five", "six"]


@pytest.mark.rule("S-263", "S-267")
def test_what_is_prepared_still_counts_in_pages(tmp_path: Path) -> None:
    store = new_store(tmp_path / "store")
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        address = Address(mount)
        os.setxattr(address.path, "user.journalfs.max-size-messages", b"1")
        for text in ("one\n", "two\nthree\nfour\n"):
            (address.first.path / "in.txt").write_text(text)
        transaction = begun(address)
        message(address, 2).rename(transaction / "x")
        transaction.rename(transaction.parent / "prepared" / XID)
    checked = journalfs("check", "--deep", store)
    assert (checked.returncode, checked.stdout.count("page-counter")) == (0, 0), checked.stdout


@pytest.mark.rule("S-262")
@pytest.mark.parametrize("ends", ["umount", "kill"])
def test_it_outlives_the_mount(tmp_path: Path, ends: str) -> None:
    store, mountpoint = new_store(tmp_path / "store"), tmp_path / "mnt"
    with mounted_for_writing(store, mountpoint) as mount:
        address = Address(mount)
        (address.first.path / "in.txt").write_text("one\ntwo\nthree\n")
        transaction = begun(address)
        (within(transaction, address.second.path, address) / "in.txt").write_text("four\n")
        message(address, 1).rename(transaction / "x")
        moment = mountpoint / ".journalfs/snapshots/moment"
        moment.mkdir()
        assert len(QueueOnDisk(moment / address.first.path.relative_to(mountpoint)).lines()) == 3
        if ends == "kill":
            os.kill(mount.process_id(), signal.SIGKILL)
            subprocess.run(["umount", "--lazy", mountpoint], check=True)
    with mounted_for_writing(store, mountpoint):
        assert transaction.is_dir()
        assert bodies(address.first) == ["one", "three"]
        assert len(os.listdir(within(transaction, address.first.path, address))) == 1
        end(transaction, "committed")
        assert bodies(address.second) == ["four"]
    with mounted_for_writing(store, mountpoint):
        assert bodies(address.first) == ["one", "three"]
        assert bodies(address.second) == ["four"]
        assert not transaction.exists()


@pytest.mark.rule("S-261", "S-262")
def test_what_somebody_else_took_meanwhile_fails_the_commit(tmp_path: Path) -> None:
    """As a broker does that has the store in between, and knows nothing of what is begun here."""
    store, mountpoint, aside = new_store(tmp_path / "store"), tmp_path / "mnt", tmp_path / "aside"
    with mounted_for_writing(store, mountpoint) as mount:
        address = Address(mount)
        (address.first.path / "in.txt").write_text("one\ntwo\nthree\n")
        transaction = begun(address)
        (within(transaction, address.second.path, address) / "in.txt").write_text("four\n")
        gone = message(address, 0).name
        shell(f"mv *.jsonl {transaction}/", address.first.path)
    begun_here = store / "journalfs/staging/transactions"
    begun_here.rename(aside)
    taken = journalfs("take", "--max", "1", store, f"{address.name}::{address.first.path.name}")
    assert taken.returncode == 0, taken.stderr
    aside.rename(begun_here)
    with mounted_for_writing(store, mountpoint) as mount:
        assert errno_of(end, transaction, "committed") == errno.ENOMSG
        assert gone.split(".")[0] in refusal(mount)
        assert (bodies(address.first), bodies(address.second)) == ([], [])
        transaction.rmdir()
        assert bodies(address.first) == ["two", "three"]


@pytest.mark.rule("S-264")
@pytest.mark.parametrize("how", ["committed", "rolled-back"])
def test_what_a_brokers_clients_left_is_decided(
    store_copy: Callable[[str], Path], tmp_path: Path, how: str
) -> None:
    with mounted_for_writing(store_copy("transactions"), tmp_path / "mnt") as mount:
        names = os.listdir(transactions(mount))
        assert names
        decided = os.listdir(transactions(mount) / how)
        expected: dict[str, int] = {}
        queues = {f"{path.parent.name}::{path.name}": path for path in mount.path.glob("*/*")}
        for name in names:
            for line in (transactions(mount) / name / "operations.jsonl").open():
                one = json.loads(line)
                counts = (one["operation"] == "send") == (how == "committed")
                key = f"{one['address']}::{one['queue']}"
                expected[key] = expected.get(key, 0) + counts
        before = {key: len(mount.queue(*key.split("::")).listed()) for key in queues}
        for name in names:
            end(transactions(mount) / name, how)
        after = {key: len(mount.queue(*key.split("::")).listed()) for key in queues}
        assert {key: after[key] - before[key] for key in queues if key in expected} == expected
        assert sorted(os.listdir(transactions(mount) / how)) == sorted([*names, *decided])
        assert all(os.listdir(path / ".delivering/.messages") == [] for path in queues.values())
        assert os.listdir(transactions(mount)) == []


class Model:
    """What two queues and the transactions of a mount should hold."""

    def __init__(self) -> None:
        self.live: dict[str, list[str]] = {"a": [], "b": []}
        self.held: dict[str, list[tuple[str, str, str]]] = {}
        """By transaction: from where, where to, and the body."""
        self.sent: dict[str, list[tuple[str, str]]] = {}

    def step(self, chance: Random, mount: MountedStore, number: int) -> None:
        name, queue, target = chance.choice("xy"), chance.choice("ab"), chance.choice("ab")
        folder, place = transactions(mount) / name, mount.path / queue / queue
        live = self.live[queue]
        if name not in self.held:
            folder.mkdir()
            self.held[name], self.sent[name] = [], []
        match chance.choice(("publish", "send", "send", "move", "move", "move", "roll back", "commit")):
            case "publish":
                (place / "in.txt").write_text(f"{number}\n")
                live.append(str(number))
            case "send":
                (folder / queue / queue / f"{number}.txt").write_text(f"{number}\n")
                self.sent[name].append((queue, str(number)))
            case "move" if live:
                body = live.pop(chance.randrange(len(live)))
                file = next(one for one in (place / ".messages").iterdir() if one.read_text() == body)
                file.rename(folder / target / target / file.name)
                self.held[name].append((queue, target, body))
            case "roll back":
                folder.rmdir()
                for source, _, body in self.held.pop(name):
                    self.live[source].append(body)
                del self.sent[name]
            case "commit":
                end(folder, "committed")
                moved = [(to, body) for source, to, body in self.held.pop(name) if source != to]
                for to, body in [*moved, *self.sent.pop(name)]:
                    self.live[to].append(body)

    def check(self, mount: MountedStore) -> None:
        for queue, live in self.live.items():
            assert sorted(bodies(mount.queue(queue))) == sorted(live)
        assert sorted(os.listdir(transactions(mount))) == sorted(self.held)


@pytest.mark.rule("S-258", "S-260", "S-262")
def test_a_model_of_it_is_true_after_any_steps(tmp_path: Path) -> None:
    chance, model, mountpoint = Random(7), Model(), tmp_path / "mnt"
    store = new_store(tmp_path / "store")
    for mounts in range(2):
        with mounted_for_writing(store, mountpoint) as mount:
            for queue in model.live if mounts == 0 else ():
                (mount.path / queue / queue).mkdir(parents=True)
            for number in range(25):
                model.step(chance, mount, 100 * mounts + number)
                model.check(mount)
