"""Damage of the size of sectors, anywhere in any file: nothing fails, and what is not shown is listed."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.store import open_store
from tests.damage.cases import cases
from tests.truth.from_store import content_of

Copy = Callable[[str], Path]
Content = dict[str, set[int]]
"""Ids of its messages by the name of a queue."""

SECTOR_BYTES = 512
STORES = ("transactions", "large-and-paged", "amqp-exotic", "mapped", "killed")


def shown(data: Path) -> tuple[Content, int, set[object]]:
    """What the queues hold, how many lines say that they are damaged, and what else is listed."""
    store = open_store(data, index=False)
    try:
        found: Content = {}
        damaged = 0
        for queue in store.queues():
            lines = content_of(queue.open_all()) + content_of(queue.delivering().open_all())
            envelopes = [json.loads(line) for line in lines.splitlines()]
            damaged += sum("damage" in envelope for envelope in envelopes)
            found[f"{queue.model.address}::{queue.name}"] = {one["id"] for one in envelopes if "id" in one}
        return found, damaged, set(store.core.damage())
    finally:
        store.close()


def files_of(data: Path) -> list[Path]:
    folders = ("journal", "bindings", "paging", "large-messages")
    found = [path for folder in folders for path in (data / folder).rglob("*") if path.is_file()]
    return sorted(path for path in found if path.stat().st_size and "lock" not in path.name)


def damage(path: Path, chance: random.Random) -> str:
    """Change a file in one way that disks, filesystems and people have. Returns what was done."""
    content = bytearray(path.read_bytes())
    used = max(32, len(content.rstrip(b"\0")))
    at = chance.randrange(used)
    sector = at - at % SECTOR_BYTES
    kinds = ["zeros", "garbage", "cut", "shift", "copy", "more behind"]
    if path.suffix == ".page":
        kinds.remove("cut")  # between two records it leaves a page that was never longer
    kind = chance.choice(kinds)
    if kind == "zeros":
        content[sector : sector + SECTOR_BYTES] = bytes(len(content[sector : sector + SECTOR_BYTES]))
    elif kind == "garbage":
        content[sector : sector + SECTOR_BYTES] = chance.randbytes(
            len(content[sector : sector + SECTOR_BYTES])
        )
    elif kind == "cut":
        del content[at:]
    elif kind == "shift":
        content[at:at] = bytes(chance.randrange(1, 64))
    elif kind == "copy":
        other = chance.randrange(used) // SECTOR_BYTES * SECTOR_BYTES
        block = content[other : other + SECTOR_BYTES]
        content[sector : sector + len(block)] = block
    else:
        content += chance.randbytes(100)
    path.write_bytes(content)
    return f"{kind} in {path.name} at {at}"


@pytest.mark.rule("S-48", "S-49", "S-52")
@pytest.mark.parametrize("name", STORES)
def test_sectors(name: str, store_copy: Copy, tmp_path: Path) -> None:
    data = store_copy(name) / "data"
    before, damaged_before, listed_before = shown(data)
    chance = random.Random(name)
    files = files_of(data)
    for _ in range(cases(12)):
        path = chance.choice(files)
        kept = shutil.copy2(path, tmp_path / "kept")
        done = damage(path, chance)
        found, damaged, listed = shown(data)
        hidden = {queue: ids - found.get(queue, set()) for queue, ids in before.items()}
        hidden = {queue: ids for queue, ids in hidden.items() if ids}
        assert not hidden or listed - listed_before or damaged > damaged_before, (done, hidden)
        shutil.copy2(kept, path)
