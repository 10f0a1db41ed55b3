"""The synthetic stores are what a broker writes: a real one reads them, message by message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.settings import BrokerSettings
from tests.tools.make_store import VARIANTS, QueueMade, StoreMade, StoreSpec, make_store

FILE_BYTES = 100 * 1024
PAGE_BYTES = 40_000


def _priority(made: StoreMade, message_id: int) -> int:
    return (message_id - made.first_message_id) % VARIANTS % 10 if made.spec.mixed_priorities else 4


def _listed(made: StoreMade, queue: QueueMade) -> list[tuple[int, int, str]]:
    """What a browser of the queue must show: id, priority, body; highest priority first, then arrival."""
    ordered = sorted(queue.live, key=lambda message_id: -_priority(made, message_id))
    return [(message_id, _priority(made, message_id), made.body(message_id)) for message_id in ordered]


def _browse(client: CoreClient, queue: QueueMade) -> list[tuple[int, int, str]]:
    return [(m["id"], m["priority"], m["body"]) for m in client.browse(queue.name)]


def _broker(made: StoreMade) -> Broker:
    settings = BrokerSettings(
        journal_file_size=str(made.spec.file_size_bytes),
        page_size_bytes=str(made.spec.page_size_bytes),
        journal_compact_min_files=0,
    )
    return Broker(made.root, settings=settings)


PAGED = StoreSpec(
    messages=100,
    paged_messages=500,
    acked_fraction=0.2,
    addresses=2,
    page_size_bytes=PAGE_BYTES,
    file_size_bytes=FILE_BYTES,
)
UNPAGED = StoreSpec(
    messages=1500,
    addresses=2,
    queues_per_address=2,
    acked_fraction=0.3,
    ack_lag_messages=50,
    mixed_priorities=True,
    file_size_bytes=FILE_BYTES,
)


@pytest.mark.broker
@pytest.mark.parametrize(
    ("spec", "files"),
    [
        (PAGED, "paging/*/*.page"),
        pytest.param(replace(UNPAGED, body_kind="json"), "journal/*.amq", marks=pytest.mark.long),
        pytest.param(replace(UNPAGED, body_kind="text"), "journal/*.amq", marks=pytest.mark.long),
    ],
    ids=["paged", "json", "text"],
)
def test_a_broker_lists_exactly_the_messages_written(tmp_path: Path, spec: StoreSpec, files: str) -> None:
    made = make_store(tmp_path, spec)
    assert len(list(made.data.glob(files))) > 4
    with _broker(made) as broker, CoreClient(broker.port) as client:
        for queue in made.queues:
            assert _browse(client, queue) == _listed(made, queue)
        assert " WARN " not in broker.log


def _bytes(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_seed_decides_every_byte(tmp_path: Path) -> None:
    first, second, other = (tmp_path / name for name in ("first", "second", "other"))
    spec = StoreSpec(messages=300, acked_fraction=0.5, paged_messages=50, file_size_bytes=FILE_BYTES)
    make_store(first, spec)
    make_store(second, spec)
    make_store(other, replace(spec, seed=2))
    assert _bytes(first) == _bytes(second)
    assert _bytes(first) != _bytes(other)


def test_journal_files_are_full_and_of_one_size(tmp_path: Path) -> None:
    made = make_store(tmp_path, StoreSpec(messages=1000, file_size_bytes=FILE_BYTES))
    journal = made.data / "journal"
    files = sorted(journal.glob("*.amq"), key=lambda path: int(path.stem.split("-")[-1]))
    assert {path.stat().st_size for path in files} == {FILE_BYTES}
    longest = max(len(made.body(message_id)) for message_id in made.queues[0].live) * 2 + 300
    for path in files[:-2]:
        content = path.read_bytes()
        assert len(content) - len(content.rstrip(b"\0")) < longest
    assert not files[-1].read_bytes()[16:].strip(b"\0")
