"""The frozen stores of `tests/stores`: unpacking them, and the broker's own account of each."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import zstandard

ARCHIVES = Path(__file__).parent / "stores"

FILE_STORES = (
    "orders-basic",
    "amqp-mqtt-stomp-openwire",
    "amqp-exotic",
    "large-and-paged",
    "transactions",
    "compacted",
    "aio",
    "mapped",
    "retention",
    "killed",
    "thousand-queues",
)
"""Stores of the current format in files: broker.xml, a data directory, and an account by the broker."""

OLDER_STORES = {
    "hq-2.1-core": "hornetq-2.4",
    "hq-2.2-core": "hornetq-2.4",
    "hq-2.4-main": "hornetq-2.4",
    "hq-2.4-killed": "hornetq-2.4",
    "art-1.0-main": "artemis-1.x",
    "art-1.5-main": "artemis-1.x",
    "art-1.5-killed-aio": "artemis-1.x",
    "amq-5.0-clean": "amq-5.x",
    "amq-5.4-clean": "amq-5.x",
    "amq-5.4-killed": "amq-5.x",
    "amq-5.8-killed": "amq-5.x",
    "kaha-5.4.3-killed": "kahadb",
    "kaha-5.8.0-clean": "kahadb",
    "kaha-5.16.7-killed": "kahadb",
    "kaha-6.1.7-clean": "kahadb",
}
"""Directory of a store of older software -> the archive that holds it."""


def archive_of(name: str) -> str:
    return OLDER_STORES.get(name, name)


def unpack(archive: str, target: Path) -> None:
    """Unpack `tests/stores/<archive>.tar.zst` below `target`."""
    with (ARCHIVES / f"{archive}.tar.zst").open("rb") as packed:
        plain = io.BytesIO(zstandard.ZstdDecompressor().stream_reader(packed).read())
    with tarfile.open(fileobj=plain) as tar:
        # The archives are our own: nothing is lost where Python has no filters yet (3.11.2 of Debian 12).
        if hasattr(tarfile, "data_filter"):
            tar.extraction_filter = tarfile.data_filter
        tar.extractall(target)


def load_expected(name: str) -> dict[str, Any]:
    plain = ARCHIVES / f"{name}.expected.json"
    if plain.exists():
        content = plain.read_bytes()
    else:
        with (ARCHIVES / f"{name}.expected.json.zst").open("rb") as packed:
            content = zstandard.ZstdDecompressor().stream_reader(packed).read()
    account: dict[str, Any] = json.loads(content)
    return account


def tree_state(root: Path) -> dict[str, tuple[int, int]]:
    """Size and modification time (ns) of every file below `root` that is the broker's, by relative path."""
    state = {}
    for folder, subfolders, files in os.walk(root):
        if "journalfs" in subfolders:
            subfolders.remove("journalfs")
        for file in files:
            path = Path(folder, file)
            info = path.stat()
            state[str(path.relative_to(root))] = (info.st_size, info.st_mtime_ns)
    return state


class PristineStores(Mapping[str, Path]):
    """Unpacked stores, each made when first asked for and shared by the session: nobody may change them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._states: dict[str, dict[str, tuple[int, int]]] = {}

    def __getitem__(self, name: str) -> Path:
        if name not in self:
            raise KeyError(name)
        archive = archive_of(name)
        folder = self._root / archive
        if archive not in self._states:
            folder.mkdir(parents=True)
            unpack(archive, folder)
            self._states[archive] = tree_state(folder)
        return folder / name

    def __contains__(self, name: object) -> bool:
        return name in FILE_STORES or name in OLDER_STORES or name == "jdbc"

    def __iter__(self) -> Iterator[str]:
        yield from FILE_STORES
        yield from OLDER_STORES
        yield "jdbc"

    def __len__(self) -> int:
        return len(FILE_STORES) + len(OLDER_STORES) + 1

    def changed_files(self) -> list[str]:
        """Files of the broker that someone made, changed or removed in stores handed out for reading."""
        changed = []
        for archive, before in self._states.items():
            after = tree_state(self._root / archive)
            names = before.keys() | after.keys()
            changed += [f"{archive}/{name}" for name in sorted(names) if before.get(name) != after.get(name)]
        return changed


class ExpectedStores(Mapping[str, dict[str, Any]]):
    """The broker's account of each file store, parsed when first asked for."""

    def __init__(self) -> None:
        self._parsed: dict[str, dict[str, Any]] = {}

    def __getitem__(self, name: str) -> dict[str, Any]:
        if name not in FILE_STORES:
            raise KeyError(name)
        if name not in self._parsed:
            self._parsed[name] = load_expected(name)
        return self._parsed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(FILE_STORES)

    def __len__(self) -> int:
        return len(FILE_STORES)
