"""Refuses to write to a store whose files are another directory's, too, by hard links.

`cp -al` and `rsync --link-dest` make such copies. A writer changes journal files in place, so it would change
the original. Snapshots give files second names as well: those lie within the store, and are counted.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator

from journalfs import door
from journalfs.config.files import FORCE_VARIABLE
from journalfs.config.layout import StoreLayout
from journalfs.errors import WrongCall


def refuse_shared_files(layout: StoreLayout) -> None:
    """Raise `WrongCall` where a file that is written in place has a name outside of the store. Raises
    OSError.
    """
    if os.environ.get(FORCE_VARIABLE):
        return
    written = dict.fromkeys((layout.journal_dir, layout.bindings_dir, layout.node_manager_lock_dir))
    shared: dict[tuple[int, int], tuple[str, int]] = {}
    for folder in filter(door.is_folder, written):
        with door.folder(folder) as held:
            for name, found in _files(held, door.names_in(held)):
                if found.st_nlink > 1:
                    shared[found.st_dev, found.st_ino] = str(folder / name), found.st_nlink
    if not shared:
        return
    names: Counter[tuple[int, int]] = Counter()
    outermost = [one for one in layout.places if not set(one.parents) & set(layout.places)]
    for top in filter(door.is_folder, outermost):
        for place, _, files in door.below(top):
            with door.folder(place) as held:
                names.update((one.st_dev, one.st_ino) for _, one in _files(held, map(os.fsdecode, files)))
    for identity, (file, count) in shared.items():
        if names[identity] < count:
            raise WrongCall(
                f"{file}: this file has another name outside of {layout.root}, as cp -al makes them, so "
                "writing would change both: make a copy that is its own, cp -a --reflink=auto "
                f"{layout.root} NEW, and give NEW; --force (of a mount: -o force) writes all the same"
            )


def _files(held: int, names: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    for name in names:
        try:
            found = door.status_in(held, name)
        except FileNotFoundError:
            continue  # it was removed just now
        if stat.S_ISREG(found.st_mode):
            yield name, found
