"""An address that pages, by means of the shell."""

from __future__ import annotations

import os

import pytest

from tests.writing.conftest import Address, bodies, shell


@pytest.mark.rule("S-110")
def test_an_address_pages_and_is_emptied(address: Address) -> None:
    os.setxattr(address.path, "user.journalfs.max-size-messages", b"1")
    os.setxattr(address.path, "user.journalfs.page-size-bytes", b"1000")
    shell("for n in 1 2 3 4 5 6 7 8; do echo message $n > in.txt; done; seq 9 12 > in.txt", address.path)
    texts = [f"message {n}" for n in range(1, 9)] + [str(n) for n in range(9, 13)]
    assert bodies(address.first) == bodies(address.second) == texts
    pages = address.mount.path / ".journalfs" / "pages" / address.name
    assert len(os.listdir(pages)) > 1
    ids = [line["id"] for line in address.first.lines()]
    shell(f"rm .messages/{ids[5]}.txt .messages/{ids[-1]}.txt", address.first.path)
    left = [text for number, text in enumerate(texts) if number not in (5, 11)]
    assert bodies(address.first) == left
    shell("rm -r *.jsonl", address.first.path)
    shell("rm -f .all.jsonl", address.first.path)
    assert bodies(address.first) == []
    assert bodies(address.second) == texts
    shell("rm .all.jsonl", address.second.path)
    (page,) = os.listdir(pages)
    assert (pages / page).read_bytes() == b""
    shell("echo again > in.txt", address.path)
    assert bodies(address.second) == ["again"]
    assert (pages / page).read_bytes() == b""
    assert address.refusals() == []
