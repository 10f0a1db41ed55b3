"""Older stores that were cut off, overwritten and half removed: what is intact is shown, the rest told, and
the source stays as it is.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from journalfs.errors import NotAStore
from journalfs.store import open_store
from tests.frozen import OLDER_STORES
from tests.older.truth import envelopes

QUICK = {
    "hq-2.1-core": 5,
    "hq-2.4-main": 6,
    "art-1.5-main": 5,
    "amq-5.0-clean": 5,
    "amq-5.4-killed": 4,
    "kaha-5.8.0-clean": 6,
    "kaha-5.16.7-killed": 5,
}
"""How often each is damaged."""
LONG = 50
ZEROS = 512

Message = tuple[str, str]
"""Its queue, and its id: of ActiveMQ 5 the old one, since it gets a new one here."""


class Look(NamedTuple):
    messages: dict[Message, dict[str, Any]]
    damaged: int
    """Messages that say that they are."""
    damage: list[tuple[str, int]]
    """File and offset."""


def look(store: Path, derived: Path) -> Look:
    with closing(open_store(store, derived=derived, index=False)) as opened:
        found, damaged = {}, 0
        for queue in opened.queues():
            for one in envelopes(queue):
                old = one.get("properties", {}).get("__HDR_MESSAGE_ID")
                identity = one.pop("id") if old is not None else one["id"]
                damaged += "damage" in one
                found[queue.name, str(old or identity)] = one
        opened.status()
        return Look(found, damaged, [(one.file, one.offset) for one in opened.core.damage()])


def digest(store: Path) -> str:
    """Of all files, with their names."""
    files = (path for path in sorted(store.rglob("*")) if path.is_file())
    whole = (str(path.relative_to(store)).encode() + path.read_bytes() for path in files)
    return hashlib.sha256(b"".join(whole)).hexdigest()


def data_files(store: Path) -> list[Path]:
    """Not the bodies of large messages, which are read in place."""
    every = (path for path in sorted(store.rglob("*")) if path.is_file() and path.stat().st_size)
    return [path for path in every if "large" not in str(path.relative_to(store)) and path.name != "lock"]


def mutations(files: list[Path], seed: int, count: int) -> Iterator[tuple[str, Path, bytes | None]]:
    """A word for each, the file, and what it is to hold; None: it is gone."""
    chance = random.Random(seed)
    for _ in range(count):
        path = chance.choice(files)
        content = bytearray(path.read_bytes())
        at = chance.randrange(len(content.rstrip(b"\0")) or 1)
        word = chance.choice(("cut", "flip", "flips", "zeros", "gone"))
        if word == "cut":
            del content[at:]
        elif word == "flip":
            content[at] ^= 1 << chance.randrange(8)
        elif word == "flips":
            for _ in range(8):
                content[chance.randrange(at + 1)] = chance.randrange(256)
        else:
            content[at : at + ZEROS] = bytes(len(content[at : at + ZEROS]))
        yield f"{word} at {at} of {path.name}", path, None if word == "gone" else bytes(content)


def ids(messages: Iterable[Message]) -> set[str]:
    return {identity for _, identity in messages}


def is_in(content: bytes, identity: str) -> bool:
    """Whether an id is on the disk: a number, or a text of which the broker keeps what counts as numbers."""
    if identity.isdigit():
        return int(identity).to_bytes(8, "big") in content
    return identity[: identity.find(":", 3)].encode() in content


def check(store: Path, derived: Path, seed: int, count: int) -> None:
    whole = look(store, derived)
    content_of_all = b"".join(path.read_bytes() for path in data_files(store))
    for what, path, content in mutations(data_files(store), seed, count):
        before = path.read_bytes()
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        state = digest(store)
        try:
            found = look(store, derived)
        except NotAStore:
            assert content is None, what  # nothing is left by which it is known
        else:
            judge(what, whole, found, content_of_all)
        assert digest(store) == state, what
        path.write_bytes(before)
    assert look(store, derived) == whole


def judge(what: str, whole: Look, found: Look, content: bytes) -> None:
    """A byte that changed may be one of an id: then nobody can know."""
    word = what.partition(" ")[0]
    lost = ids(whole.messages) - ids(found.messages)
    # One that was acknowledged is back where the acknowledgement is lost.
    new = [one for one in ids(found.messages) - ids(whole.messages) if not is_in(content, one)]
    assert len(new) <= {"flip": 1, "flips": 8}.get(word, 0), (what, new)
    if word in ("cut", "zeros") and len(lost) > 1:
        assert found.damage or found.damaged, what
    if word == "flip" and len(lost) > 2:
        assert found.damage, what
    assert all(name and offset >= 0 for name, offset in found.damage), what


@pytest.mark.rule("S-204", "S-215")
@pytest.mark.parametrize("name", QUICK)
def test_damage_hides_nothing_and_invents_nothing(
    store_copy: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    check(store_copy(name), tmp_path / "derived", seed=1, count=QUICK[name])


@pytest.mark.long
@pytest.mark.parametrize("name", OLDER_STORES)
def test_damage_of_many_kinds(store_copy: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    check(store_copy(name), tmp_path / "derived", seed=2, count=LONG)
