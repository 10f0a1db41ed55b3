"""Directories under `.journalfs/` that have very many entries."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest

from journalfs import door
from journalfs.api import VirtualDirectory, VirtualFile
from journalfs.pages.address import PagedAddress
from tests.store.conftest import LittleStore
from tests.store.test_pages import small, write_page

FILES = 20


def test_what_there_is_is_listed_once(little_store: LittleStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount lists a directory, and then asks for each name in it: that must not list all each time."""
    for number in range(1, FILES + 1):
        write_page(little_store, number, [small(2000 + number)])
        (little_store.root / "large-messages" / f"{number}.msg").write_bytes(b"x")
    store = little_store.open()
    listed: Counter[str] = Counter()
    numbers, names_in = PagedAddress.numbers, door.names_in

    def counted_numbers(paged: PagedAddress) -> Any:
        listed["pages"] += 1
        return numbers(paged)

    def counted_names(held: int) -> Any:
        listed["large"] += 1
        return names_in(held)

    monkeypatch.setattr(PagedAddress, "numbers", counted_numbers)
    monkeypatch.setattr(door, "names_in", counted_names)
    pages = cast("VirtualDirectory", store.control().child("pages")).child("work")
    for directory in (
        cast("VirtualDirectory", pages),
        cast("VirtualDirectory", store.control().child("large")),
    ):
        names = [name for name, _ in directory.children()]
        assert len(names) == FILES
        files = [cast("VirtualFile", directory.child(name)) for name in names]
        assert all(file.size_bytes for file in files)
        assert directory.child(f"{FILES + 1:09}.page.jsonl") is directory.child("1.page.jsonl") is None
        assert directory.child(f"{FILES + 1}.msg") is directory.child("01.msg") is None
    assert listed == {"pages": 1, "large": 1}
