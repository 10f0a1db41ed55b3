"""Messages that came from elsewhere: why they are where they are, and what sending them back does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from journalfs.api import QueuePath, Redriven
from journalfs.views.origins import origin_in


class SentBack(NamedTuple):
    """What became of messages that were to go back to where they came from, or would become of them."""

    sent: Mapping[str, int]
    """How many went to which `address::queue`."""
    stayed: Mapping[str, int]
    """How many stay, by why."""


def sent_back(found: Redriven) -> SentBack:
    return SentBack(
        {"::".join(path): count for path, count in found.sent.items()},
        {why: len(ids) for why, ids in found.stayed.items()},
    )


def planned(lines: Iterable[bytes], queues: Collection[QueuePath], here: QueuePath) -> SentBack:
    """What would become of messages with these lines, as far as their notes and the names of queues tell."""
    sent: Counter[str] = Counter()
    stayed: Counter[str] = Counter()
    for line in lines:
        origin = origin_in(line)
        if origin.address is None or origin.queue is None:
            stayed["nothing says where they come from"] += 1
        elif (path := (origin.address, origin.queue)) == here:
            stayed[f"they are in {'::'.join(path)}, where they come from"] += 1
        elif path in queues:
            sent["::".join(path)] += 1
        else:
            stayed[f"there is no queue {'::'.join(path)} any more"] += 1
    return SentBack(dict(sent), dict(stayed))
