"""Files beside a store, where root exports, imports and publishes: in a directory of somebody else's, and of
root's alone for a store of somebody else's.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.mounting import journalfs
from tests.security.strangers import OWNER, Victim, give_away, put_link
from tests.writing.conftest import new_store

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is attacked")

LINE = '{"queue":"orders","type":"text","body":"one"}\n'


def run(*arguments: str | Path, succeeds: bool = True) -> str:
    done = journalfs(*arguments)
    assert (done.returncode == 0) is succeeds, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.mark.rule("S-291")
@pytest.mark.parametrize("name", [".out.jsonl.unfinished", ".in.jsonl.importing", ".in.jsonl.importing.new"])
def test_who_owns_the_directory_leads_nobody(tmp_path: Path, victim: Victim, name: str) -> None:
    store, folder = new_store(tmp_path / "store"), tmp_path / "stranger"
    folder.mkdir()
    (folder / "in.jsonl").write_text(LINE * 3)
    give_away(folder)
    put_link(folder / name, victim.file)
    led = name == ".in.jsonl.importing"
    said = run("import", folder / "in.jsonl", store, succeeds=not led)
    assert ("cannot read" in said) is led
    run("export", store, folder / "out.jsonl")
    assert (folder / "out.jsonl").read_text().count("\n") == (0 if led else 3)
    assert not (folder / "out.jsonl").is_symlink()
    victim.require_untouched()


@pytest.mark.rule("S-291")
def test_what_is_roots_alone_goes_into_a_store_of_another_user(tmp_path: Path) -> None:
    store, folder = new_store(tmp_path / "store"), tmp_path / "roots"
    give_away(store)
    folder.mkdir(mode=0o700)
    (folder / "in.jsonl").write_text(LINE)
    run("import", folder / "in.jsonl", store)
    run("export", store, folder / "out.jsonl")
    assert sorted(os.listdir(folder)) == ["in.jsonl", "out.jsonl"]
    assert (folder / "out.jsonl").stat().st_uid == 0
    assert {path.stat().st_uid for path in store.rglob("*")} == {OWNER}
    run("put", store, "orders", folder / "in.jsonl", succeeds=False)
