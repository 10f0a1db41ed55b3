"""Any journal can be exported as lines: that of the bindings, and one among others in a directory."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.frozen import PristineStores
from tests.mounting import journalfs


def test_any_journal_is_exported_by_its_prefix(stores: PristineStores, tmp_path: Path) -> None:
    data = stores["orders-basic"] / "data"
    plain = journalfs("export", "--format", "lines", data)
    names = ("--extension", "bindings", "--prefix", "activemq-bindings")
    bindings = journalfs("export", "--format", "lines", "--directory", data / "bindings", *names, data)
    assert plain.returncode == bindings.returncode == 0
    assert bindings.stdout
    assert bindings.stdout != plain.stdout
    both = tmp_path / "both"
    shutil.copytree(data / "journal", both)
    for file in (data / "bindings").glob("activemq-bindings-*.bindings"):
        shutil.copy(file, both / f"other-{file.stem.rpartition('-')[2]}.amq")
    words = ("export", "--format", "lines", "--directory", both, "--prefix")
    assert journalfs(*words, "activemq-data", data).stdout == plain.stdout
    one = journalfs(*words, "other", data)
    assert one.returncode == 0, one.stderr
    assert one.stdout
    assert one.stdout not in {plain.stdout, ""}
    none = journalfs(*words, "absent", data)
    assert none.returncode == 1
    assert "no journal files here (absent-*.amq)" in none.stderr
