"""A store whose four directories lie on different disks: the same messages, and damage by its whole path."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from journalfs.api import VirtualDirectory, VirtualFile
from journalfs.store import open_store
from journalfs.store.store import JournalStore
from tests.damage.cases import used_bytes
from tests.frozen import ExpectedStores
from tests.mounting import mounted
from tests.reference import journal as reference
from tests.reference.compare import compare_store
from tests.truth.from_store import account, content_of

NAMES = ("journal", "bindings", "paging", "large-messages")
Copy = Callable[[str], Path]


@pytest.fixture
def spread(store_copy: Copy, tmp_path: Path) -> Path:
    """The store with broker.xml; each directory has a place of its own, with a path too long for one name."""
    instance = store_copy("large-and-paged")
    configuration = (instance / "broker.xml").read_text()
    for number, name in enumerate(NAMES):
        target = tmp_path / f"disk-{number}" / ("deep-" * 40) / ("down-" * 40) / name
        target.parent.mkdir(parents=True)
        shutil.move(instance / "data" / name, target)
        configuration = configuration.replace(f">data/{name}<", f">{target}<")
    (instance / "broker.xml").write_text(configuration)
    return instance


def directories(store: JournalStore) -> dict[str, Path]:
    layout = store.core.layout
    return dict(
        zip(
            NAMES, (layout.journal_dir, layout.bindings_dir, layout.paging_dir, layout.large_dir), strict=True
        )
    )


def files_below(entry: VirtualDirectory | VirtualFile | None) -> Iterator[tuple[str, VirtualFile]]:
    directory = cast("VirtualDirectory", entry)
    for name, child in directory.children():
        if hasattr(child, "children"):
            yield from files_below(child)
        else:
            yield name, child


@pytest.mark.rule("S-37")
def test_directories_on_other_disks_hold_the_same(
    spread: Path, expected: ExpectedStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No index is kept of places outside of the instance that was named, unless they are said by hand.
    monkeypatch.setenv("JOURNALFS_CONFIG", str(spread / "broker.xml"))
    for scanned in (True, False):
        store = open_store(spread)
        assert compare_store(expected["large-and-paged"], account(store)) == []
        assert store.status()["damage"] == 0
        assert (store.status()["journalBytesScanned"] > 0) == scanned  # type: ignore[operator]
        control = store.control()
        assert len(list(files_below(control.child("large")))) == len(
            list(directories(store)["large-messages"].glob("*.msg"))
        )
        for view in ("journal", "bindings", "pages"):
            files = [file for name, file in files_below(control.child(view)) if name.endswith(".jsonl")]
            lines = [line for file in files for line in _lines(file)]
            assert all("kind" in json.loads(line) for line in lines), view
            assert lines
        store.close()


def _lines(file: VirtualFile) -> list[bytes]:
    return content_of(file.open()).splitlines()


@pytest.mark.rule("S-49")
def test_damage_on_other_disks_is_listed_by_its_whole_path(spread: Path, tmp_path: Path) -> None:
    store = open_store(spread, index=False)
    where = directories(store)
    body = next(iter(sorted(store.core.loader.state.large_ids())))
    store.close()
    journal = next(path for path in where["journal"].glob("*.amq") if used_bytes(path) > 2000)
    bindings = next(path for path in where["bindings"].glob("*.bindings") if used_bytes(path) > 2000)
    page = next(path for path in sorted(where["paging"].rglob("*.page")) if path.stat().st_size > 1000)
    content = journal.read_bytes()
    records = reference.scan(content, int.from_bytes(content[8:16], "big")).records
    for path, offset in ((journal, records[1].offset), (bindings, 700), (page, 700)):
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(b"\xff" * 600)
    (where["large-messages"] / f"{body}.msg").unlink()
    (page.parent / "address.txt").unlink()
    others = [bindings, page, where["large-messages"] / f"{body}.msg", page.parent / "address.txt"]
    # The journal's directory is the root of what has no common one.
    damaged = {journal.name, *map(str, others)}
    store = open_store(spread, index=False)
    assert damaged <= {one.file for one in store.core.damage()}
    found = dict(files_below(store.control().child("damaged")))
    assert max(map(len, found)) <= 255
    texts = {name: content_of(file.open()) for name, file in found.items()}
    facts = [json.loads(text) for name, text in texts.items() if name.endswith(".json")]
    assert damaged <= {one["file"] for one in facts}
    assert sum(name.endswith(".bin") and b"\xff" * 600 in text for name, text in texts.items()) >= 2
    store.close()
    with mounted(spread, tmp_path / "mount") as mount:
        listed = os.listdir(mount.path / ".journalfs/damaged")
        assert sorted(listed) == sorted(found)
        for name in listed:
            assert (mount.path / ".journalfs/damaged" / name).read_bytes() == texts[name]


@pytest.mark.rule("S-49")
def test_second_page_folder_of_an_address_on_another_disk(spread: Path) -> None:
    store = open_store(spread, index=False)
    paging = directories(store)["paging"]
    store.close()
    folder = next(path for path in sorted(paging.iterdir()) if list(path.glob("*.page")))
    shutil.copytree(folder, paging / "zz-again")
    store = open_store(spread, index=False)
    assert str(paging / "zz-again") in [one.file for one in store.core.damage()]
