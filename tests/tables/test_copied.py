"""A copied instance whose store is in a database: the copy's broker.xml names production's."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import Done, journalfs
from tests.named.instances import make_instance
from tests.tables.instances import CONFIG, jdbc_place

pytestmark = pytest.mark.rule("S-402")


def put(*store: str | Path, file: Path) -> Done:
    file.write_text("x\n")
    *options, place = store
    return journalfs("put", *options, place, "DLQ::DLQ", file)


def instance(root: Path, url: str) -> Path:
    """Production's instance, with a store in its database."""
    made = make_instance(root / "prod")
    shutil.rmtree(made / "data")
    (made / "etc/broker.xml").write_text(CONFIG.format(url=jdbc_place(url), settings=""))
    assert journalfs("create", url).returncode == 0
    return made


def messages(place: str | Path) -> int:
    return len(journalfs("cat", place, "DLQ::DLQ").stdout.splitlines())


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def test_a_copy_does_not_write_to_the_database_of_its_original(
    empty_database: Callable[[str], str], kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A server, or a file outside of the instance. It is the original's until somebody says it by hand."""
    url, one = empty_database(kind), tmp_path / "one.txt"
    prod = instance(tmp_path, url)
    copy = shutil.copytree(prod, tmp_path / "copy")
    before = messages(url)
    done = put(copy, file=one)
    assert done.returncode == 1, done.stderr
    assert str(prod) in done.stderr
    assert f"{copy}/etc/broker.xml" in done.stderr
    assert done.stderr.count("\n") == 1
    caplog.clear()
    assert messages(copy) == before
    assert "whose store this may be" in caplog.text
    (remedy,) = re.findall(r"--config \S+", done.stderr)
    assert put(*shlex.split(remedy), copy, file=one).returncode == 0
    assert put(url, file=one).returncode == 0
    assert put(prod, file=one).returncode == 0
    assert messages(url) == before + 3


def test_a_database_within_the_instance_was_copied_with_it(tmp_path: Path) -> None:
    prod = instance(tmp_path, f"sqlite:///{tmp_path}/prod/data.db")
    copy = shutil.copytree(prod, tmp_path / "copy")
    before, untouched = messages(prod), (prod / "data.db").read_bytes()
    assert put(copy, file=tmp_path / "one.txt").returncode == 0
    assert (messages(copy), messages(prod)) == (before + 1, before)
    assert (prod / "data.db").read_bytes() == untouched
