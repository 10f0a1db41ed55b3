"""A copied data directory, a part of which is the original's by a link or a bind mount."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.running import Done, journalfs
from tests.named.instances import fingerprint, make_instance

pytestmark = pytest.mark.rule("S-400")

Link = Callable[[Path, Path], None]


@pytest.fixture
def prod(tmp_path: Path) -> Path:
    """A data directory of a production instance."""
    return make_instance(tmp_path / "prod") / "data"


@pytest.fixture
def copy(prod: Path, tmp_path: Path) -> Path:
    return shutil.copytree(prod, tmp_path / "copy")


def put(store: Path) -> Done:
    file = store.parent / "one.txt"
    file.write_text("x\n")
    return journalfs("put", store, "DLQ::DLQ", file)


def link(part: str) -> Link:
    def make(prod: Path, copy: Path) -> None:
        shutil.rmtree(copy / part, ignore_errors=True)
        (copy / part).symlink_to(prod / part)

    return make


def link_all(prod: Path, copy: Path) -> None:
    for part in ("journal", "bindings", "paging", "large-messages"):
        link(part)(prod, copy)


def relative_link(prod: Path, copy: Path) -> None:
    shutil.rmtree(copy / "journal")
    (copy / "journal").symlink_to(os.path.relpath(prod / "journal", copy))


def link_by_a_link(prod: Path, copy: Path) -> None:
    (copy.parent / "fast").symlink_to(prod)
    shutil.rmtree(copy / "journal")
    (copy / "journal").symlink_to(copy.parent / "fast/journal")


def by_toml(prod: Path, copy: Path) -> None:
    (copy / "journalfs.toml").write_text(f'journal-directory = "{prod}/journal"\n')


def without_its_instance(prod: Path, copy: Path) -> None:
    """The original is a data directory alone, too."""
    link("journal")(prod, copy)
    for one in ("etc", "bin"):
        shutil.rmtree(prod.parent / one)


OF_OTHERS: dict[str, Link] = {
    **{part: link(part) for part in ("journal", "bindings", "paging", "large-messages")},
    "all": link_all,
    "relative": relative_link,
    "by a link": link_by_a_link,
    "journalfs.toml": by_toml,
    "data directory": without_its_instance,
}


@pytest.mark.parametrize("said", OF_OTHERS)
def test_a_part_of_another_store_is_said_and_not_written_to(
    prod: Path, copy: Path, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    OF_OTHERS[said](prod, copy)
    before = fingerprint(prod)
    done = put(copy)
    assert done.returncode == 1, done.stderr
    assert f"{copy}" in done.stderr
    assert f"{prod}/" in done.stderr
    assert "it is not written to" in done.stderr
    looked = journalfs("ls", copy)
    assert (looked.returncode, "DLQ" in looked.stdout) == (0, True), looked.stderr
    assert f"{prod}/" in caplog.text
    assert fingerprint(prod) == before


@pytest.mark.parametrize("named", ["journal", "journal/", "../copy", "bindings/../journal"])
def test_it_is_the_same_by_any_of_its_names(prod: Path, copy: Path, named: str) -> None:
    """Also by the link itself, which lies in the copy."""
    link("journal")(prod, copy)
    before = fingerprint(prod)
    done = put(Path(f"{copy}/{named}"))
    assert (done.returncode, "it is not written to" in done.stderr) == (1, True), done.stderr
    assert fingerprint(prod) == before


def test_the_data_directory_of_a_copied_instance_is_a_link(prod: Path, tmp_path: Path) -> None:
    copy = make_instance(tmp_path / "copy") / "data"
    shutil.rmtree(copy)
    copy.symlink_to(prod)
    before = fingerprint(prod)
    for named in (copy, copy / "journal"):
        done = put(named)
        if named == copy:
            assert (done.returncode, f"{copy} is {prod}" in done.stderr) == (1, True), done.stderr
            assert fingerprint(prod) == before


@pytest.mark.parametrize("command", ["the store itself", "a copy of it"])
def test_each_remedy_works(prod: Path, copy: Path, command: str) -> None:
    link("journal")(prod, copy)
    said = put(copy).stderr
    found = re.search(r"give (\S+) itself or put a copy of (\S+) in the place of (\S+?)[ \n]", said)
    assert found, said
    if command == "the store itself":
        assert found[1] == str(prod)
        assert put(Path(found[1])).returncode == 0
        return
    before = fingerprint(prod)
    Path(found[3]).unlink()
    shutil.copytree(found[2], found[3])
    assert put(copy).returncode == 0
    assert fingerprint(prod) == before


def test_a_configuration_by_hand_overrules(prod: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(prod.parent, tmp_path / "copy")
    link("journal")(prod, copy / "data")
    assert put(copy / "data").returncode == 1
    (copy / "one.txt").write_text("x\n")
    config = copy / "etc/broker.xml"
    done = journalfs("put", "--config", config, copy / "data", "DLQ::DLQ", copy / "one.txt")
    assert done.returncode == 0, done.stderr


def to_a_fast_disk(data: Path, part: str) -> Path:
    fast = data.parent.parent / "fast/disk"
    fast.mkdir(parents=True, exist_ok=True)
    moved = Path(shutil.move(data / part, fast / part))
    (data / part).symlink_to(moved)
    return moved


@pytest.mark.parametrize(
    "parts", [["journal"], ["paging"], ["journal", "bindings", "paging", "large-messages"]]
)
def test_a_part_on_a_disk_of_its_own_is_written_to_with_a_line(
    prod: Path, parts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """What an operator makes who has a fast disk. The line is for whoever copied such a directory."""
    moved = [to_a_fast_disk(prod, one) for one in parts]
    assert journalfs("ls", prod).returncode == 0
    assert caplog.text == ""
    done = put(prod)
    assert done.returncode == 0, done.stderr
    for one in moved:
        assert f"{prod}/{one.name} is {one}" in caplog.text


def test_a_copied_instance_with_a_link_to_the_fast_disk_of_its_original(prod: Path, tmp_path: Path) -> None:
    """`cp -a` copies the link: the start script names the original, which has the same journal."""
    to_a_fast_disk(prod, "journal")
    shutil.copytree(prod.parent, tmp_path / "copy", symlinks=True)
    before = fingerprint(tmp_path / "fast")
    for named in (tmp_path / "copy/data", tmp_path / "copy"):
        done = put(named)
        assert (done.returncode, "it is not written to" in done.stderr) == (1, True), done.stderr
    assert f"a part of {prod}" in put(tmp_path / "copy/data").stderr
    assert fingerprint(tmp_path / "fast") == before
    moved = prod.parent.rename(tmp_path / "moved")
    assert put(moved / "data").returncode == 0, "a moved one has its journal still"


@pytest.fixture
def bound(prod: Path, copy: Path) -> Iterator[Callable[[str], None]]:
    made: list[Path] = []

    def bind(part: str) -> None:
        subprocess.run(["mount", "--bind", prod / part, copy / part], check=True)
        made.append(copy / part)

    yield bind
    for one in made:
        subprocess.run(["umount", "--lazy", one], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("part", ["journal", "paging"])
def test_a_part_that_is_mounted_from_another_store(
    prod: Path, copy: Path, bound: Callable[[str], None], part: str
) -> None:
    bound(part)
    before = fingerprint(prod)
    done = put(copy)
    assert done.returncode == 1, done.stderr
    assert f"{copy}/{part} is {prod}/{part}, a part of {prod}" in done.stderr
    assert fingerprint(prod) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_directory_that_is_mounted_twice(prod: Path, copy: Path, bound: Callable[[str], None]) -> None:
    """All of it, as a volume is: it is the store that was named."""
    shutil.rmtree(copy)
    copy.mkdir()
    bound("")
    assert put(copy).returncode == 0


def test_dots_lead_where_the_kernel_follows_them(prod: Path, tmp_path: Path) -> None:
    """Out of what a link leads to, as for `ls` and `cp`."""
    shutil.copytree(prod, tmp_path / "copy/data")
    link("journal")(prod, tmp_path / "copy/data")
    given = tmp_path / "copy/data/journal/.."
    assert given.stat().st_ino == prod.stat().st_ino
    done = put_as_typed(given)
    assert done.returncode == 0, done.stderr
    assert b"x" in b"".join(one.read_bytes() for one in (prod / "journal").iterdir())


def put_as_typed(store: Path) -> Done:
    file = Path(os.path.realpath(store)).parent / "one.txt"
    file.write_text("x\n")
    return journalfs("put", str(store), "DLQ::DLQ", file)
