"""Replay of a bindings journal: what takes effect, what does not, and what is reported."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from journalfs.bindings.model import BindingsState
from journalfs.bindings.replay import BindingsReplay
from journalfs.format.record_types import BindingType, RecordKind
from journalfs.ids import QueueId
from tests.bindings.replaying import replay_bindings
from tests.format.encode import boolean, i8, i16, i32, i64, nullable, simple_string, string


@dataclass(frozen=True)
class Record:
    kind: int
    record_id: int = 0
    tx_id: int = 0
    count: int = 0
    user_type: int = 0
    offset: int = 16
    body: bytes = b""


def queue(name: str, address: str = "orders", *, filter_text: str | None = None, routing: int = 0) -> bytes:
    texts = simple_string(name) + simple_string(address) + nullable(simple_string, filter_text)
    return texts + nullable(simple_string, "") + boolean(False) + i32(-1) + boolean(False) + i8(routing)


def address(name: str, *routing: int) -> bytes:
    return (
        simple_string(name) + i32(len(routing)) + b"".join(map(i8, routing)) + boolean(False) + boolean(False)
    )


def add(record_id: int, user_type: BindingType, body: bytes, *, offset: int = 16) -> Record:
    return Record(RecordKind.ADD, record_id, user_type=user_type, body=body, offset=offset)


def add_tx(tx_id: int, record_id: int, user_type: BindingType, body: bytes) -> Record:
    return Record(RecordKind.ADD_TX, record_id, tx_id, user_type=user_type, body=body)


def update_tx(tx_id: int, record_id: int, user_type: BindingType, body: bytes) -> Record:
    return Record(RecordKind.UPDATE_TX, record_id, tx_id, user_type=user_type, body=body)


def delete_tx(tx_id: int, record_id: int) -> Record:
    return Record(RecordKind.DELETE_TX, record_id, tx_id)


def commit(tx_id: int, count: int) -> Record:
    return Record(RecordKind.COMMIT, tx_id=tx_id, count=count)


ORDERS = [add_tx(1, 2, BindingType.ADDRESS_BINDING, address("orders", 0)), commit(1, 1)]
"""Address `orders`, id 2."""


def replayed(*files: list[Record]) -> BindingsState:
    return replay_bindings(
        (f"activemq-bindings-{number}.bindings", [(record, record.body) for record in records])
        for number, records in enumerate(files, 1)
    )


def kinds(state: BindingsState) -> list[str]:
    return [anomaly.kind for anomaly in state.anomalies]


def test_address_with_queues() -> None:
    state = replayed(
        [
            *ORDERS,
            add_tx(3, 4, BindingType.QUEUE_BINDING, queue("b")),
            add_tx(3, 5, BindingType.QUEUE_BINDING, queue("a", filter_text="x = 1")),
            commit(3, 2),
        ]
    )
    assert [item.name for item in state.queues_of("orders")] == ["a", "b"]
    assert state.queues[QueueId(5)].binding.filter == "x = 1"
    assert state.addresses["orders"].address_id == 2
    assert state.queue_named("b") == state.queues[QueueId(4)]
    assert state.queue_named("c") is None
    assert state.max_id == 5
    assert not state.anomalies


def test_update_replaces_the_binding_under_the_same_id() -> None:
    state = replayed(
        [
            *ORDERS,
            add_tx(3, 4, BindingType.QUEUE_BINDING, queue("q")),
            commit(3, 1),
            update_tx(6, 4, BindingType.QUEUE_BINDING, queue("q", filter_text="new")),
            commit(6, 1),
        ]
    )
    assert state.queues[QueueId(4)].binding.filter == "new"
    assert len(state.queues) == 1


def test_changed_routing_types_are_a_new_address_record() -> None:
    state = replayed(
        [
            *ORDERS,
            delete_tx(7, 2),
            add_tx(7, 8, BindingType.ADDRESS_BINDING, address("orders", 0, 1)),
            commit(7, 2),
        ]
    )
    assert state.addresses["orders"].address_id == 8
    assert len(state.addresses["orders"].binding.routing_types) == 2
    assert not state.anomalies


def test_delete_reaches_earlier_and_later_records() -> None:
    state = replayed(
        [*ORDERS, Record(RecordKind.DELETE, 4)],
        [add(4, BindingType.QUEUE_BINDING, queue("gone")), add(5, BindingType.QUEUE_BINDING, queue("kept"))],
    )
    assert [item.name for item in state.queues.values()] == ["kept"]
    assert state.max_id == 5


def test_deleting_record_0_is_ordinary_and_deletes_it_if_there_is_one() -> None:
    temporary_gone = [delete_tx(9, 0), commit(9, 1)]
    assert not replayed([*ORDERS, *temporary_gone]).anomalies
    first = add(0, BindingType.QUEUE_BINDING, queue("first"))
    assert "first" in replayed([*ORDERS, first]).by_name
    assert "first" not in replayed([*ORDERS, first, *temporary_gone]).by_name


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        ([], "unfinished-transaction"),
        ([Record(RecordKind.ROLLBACK, tx_id=3)], None),
        ([commit(3, 3)], "incomplete-transaction"),
        ([Record(RecordKind.PREPARE, tx_id=3, count=2)], "prepared-transaction"),
        ([Record(RecordKind.PREPARE, tx_id=3, count=1), commit(3, 2)], "incomplete-transaction"),
        ([Record(RecordKind.PREPARE, tx_id=3, count=1), Record(RecordKind.ROLLBACK, tx_id=3)], None),
    ],
)
def test_what_was_not_committed_whole_does_not_count(ending: list[Record], kind: str | None) -> None:
    records = [add_tx(3, 4, BindingType.QUEUE_BINDING, queue("q")), delete_tx(3, 2), *ending]
    state = replayed([*ORDERS, *records])
    assert not state.queues
    assert set(state.addresses) == {"orders"}
    assert kinds(state) == ([kind] if kind else [])


def test_prepared_and_committed() -> None:
    records = [
        add_tx(3, 4, BindingType.QUEUE_BINDING, queue("q")),
        Record(RecordKind.PREPARE, tx_id=3, count=1),
    ]
    assert len(replayed([*ORDERS, *records, commit(3, 1)]).queues) == 1


def test_commit_counts_the_records_of_its_own_file_only() -> None:
    first = [*ORDERS, add_tx(3, 4, BindingType.QUEUE_BINDING, queue("a"))]
    second = [
        add_tx(3, 5, BindingType.QUEUE_BINDING, queue("b")),
        add_tx(3, 6, BindingType.QUEUE_BINDING, queue("c")),
    ]
    assert len(replayed(first, [*second, commit(3, 2)]).queues) == 3
    assert len(replayed(first, second, [commit(3, 0)]).queues) == 3
    assert kinds(replayed(first, [*second, commit(3, 3)])) == ["incomplete-transaction"]


def test_commit_of_a_reclaimed_transaction_is_ordinary() -> None:
    assert not replayed([commit(3, 0), Record(RecordKind.ROLLBACK, tx_id=4)]).anomalies


def test_commit_of_records_that_are_not_there() -> None:
    """The count is of records in the same file, which cannot be reclaimed without the commit."""
    assert kinds(replayed([commit(3, 1)])) == ["incomplete-transaction"]


def test_no_record_has_type_0() -> None:
    assert kinds(replayed([Record(RecordKind.ADD, 7, body=queue("q"))])) == ["undecodable"]


def test_events_are_ignored() -> None:
    event = Record(RecordKind.EVENT, 10**9, user_type=21, body=queue("q"))
    state = replayed([*ORDERS, event])
    assert not state.queues
    assert state.max_id == 2


def test_last_id_counter_wins_even_if_it_is_lower() -> None:
    records = [
        add(1, BindingType.ID_COUNTER, i64(2_147_483_647)),
        add(90, BindingType.ID_COUNTER, i64(2_147_483_648)),
        add(100, BindingType.ID_COUNTER, i64(100)),
        Record(RecordKind.DELETE, 1),
    ]
    assert replayed(records).id_counter == 100
    assert replayed([]).id_counter is None
    assert replayed([]).max_id == -1


def test_pauses() -> None:
    records = [
        *ORDERS,
        add(3, BindingType.QUEUE_BINDING, queue("still")),
        add(4, BindingType.QUEUE_BINDING, queue("running")),
        add(5, BindingType.QUEUE_STATUS, i64(3) + i16(0)),
        add(6, BindingType.QUEUE_STATUS, i64(4) + i16(0)),
        Record(RecordKind.DELETE, 6),
    ]
    state = replayed(records)
    assert [(item.paused, item.paused_itself) for item in state.queues.values()] == [
        (True, True),
        (False, False),
    ]
    paused = replayed([*records, add(7, BindingType.ADDRESS_STATUS, i64(2) + i16(0))])
    assert paused.addresses["orders"].paused
    assert [(item.paused, item.paused_itself) for item in paused.queues.values()] == [
        (True, True),
        (True, False),
    ]


def test_a_later_record_of_the_queue_forgets_that_it_was_paused() -> None:
    pause = add(5, BindingType.QUEUE_STATUS, i64(3) + i16(0))
    added = [*ORDERS, add(3, BindingType.QUEUE_BINDING, queue("still"))]
    update, binding = BindingType.QUEUE_BINDING, queue("still")
    changed = Record(RecordKind.UPDATE, 3, user_type=update, body=binding)
    again = add(6, BindingType.QUEUE_STATUS, i64(3) + i16(0))

    def is_paused(*more: Record) -> bool:
        (found,) = replayed([*added, *more]).queues.values()
        return found.paused_itself

    assert is_paused(pause)
    assert is_paused(changed, pause)
    assert not is_paused(pause, changed)
    assert is_paused(pause, changed, again)


def test_later_address_status_wins() -> None:
    pauses = [add(7 + status, BindingType.ADDRESS_STATUS, i64(2) + i16(status)) for status in (0, 1)]
    assert not replayed([*ORDERS, *pauses]).addresses["orders"].paused


def test_status_of_what_is_gone() -> None:
    records = [
        add(5, BindingType.QUEUE_STATUS, i64(99) + i16(0)),
        add(6, BindingType.ADDRESS_STATUS, i64(3) + i16(0)),
    ]
    assert kinds(replayed([*ORDERS, *records])) == ["status-of-unknown", "status-of-unknown"]


def test_settings_of_one_match_replace_each_other() -> None:
    def setting(record_id: int, text: str) -> Record:
        return add(record_id, BindingType.ADDRESS_SETTING_JSON, simple_string("a.#") + simple_string(text))

    state = replayed([setting(3, '{"noExpiry": true}'), Record(RecordKind.DELETE, 3), setting(4, "{}")])
    assert state.address_settings["a.#"].values == {}
    assert len(state.address_settings) == 1


def test_what_is_for_running_brokers_alone_is_passed_over() -> None:
    records = [
        add(3, BindingType.USER, string("u") + string("hash")),
        add(4, BindingType.ROLE, string("u") + i32(1) + string("amq")),
        add(5, BindingType.CONNECTOR, string("c") + string("tcp://x")),
        add(6, BindingType.KEY_VALUE_PAIR, string("m") + string("k") + string("v")),
        add(7, BindingType.GROUP, simple_string("g") + simple_string("c")),
        add(8, BindingType.SECURITY_SETTING, simple_string("#") + 12 * nullable(simple_string, None)),
    ]
    assert not replayed(records).anomalies


def test_undecodable_record_is_reported_and_hides_nothing_else() -> None:
    broken = add(5, BindingType.QUEUE_BINDING, queue("q")[:-3], offset=512)
    state = replayed([*ORDERS, broken, add(6, BindingType.QUEUE_BINDING, queue("fine"))])
    assert [item.name for item in state.queues.values()] == ["fine"]
    [anomaly] = state.anomalies
    assert (anomaly.kind, anomaly.file, anomaly.offset) == (
        "undecodable",
        "activemq-bindings-1.bindings",
        512,
    )
    assert anomaly.record_id == 5
    assert "queue-binding" in anomaly.reason


def test_unknown_types_are_reported() -> None:
    unknown = Record(RecordKind.ADD, 5, user_type=77)
    assert kinds(replayed([unknown])) == ["unknown-type"]


def test_second_queue_of_a_name_gets_another_one() -> None:
    records = [add(number, BindingType.QUEUE_BINDING, queue("q")) for number in (3, 4, 5)]
    state = replayed([*ORDERS, *records, add(6, BindingType.QUEUE_BINDING, queue("q-2"))])
    assert [item.name for item in state.queues.values()] == ["q", "q-0", "q-1", "q-2"]
    assert kinds(state) == ["duplicate-queue", "duplicate-queue"]


def test_first_record_of_an_address_counts() -> None:
    state = replayed([*ORDERS, add(9, BindingType.ADDRESS_BINDING, address("orders", 1))])
    assert state.addresses["orders"].address_id == 2
    assert kinds(state) == ["duplicate-address"]


def test_queue_without_an_address_record() -> None:
    records = [
        add(3, BindingType.QUEUE_BINDING, queue("a", "lost", routing=1)),
        add(4, BindingType.QUEUE_BINDING, queue("b", "lost", routing=0)),
    ]
    state = replayed(records)
    lost = state.addresses["lost"]
    assert lost.address_id is None
    assert [routing.name for routing in lost.binding.routing_types] == ["ANYCAST", "MULTICAST"]
    assert kinds(state) == ["queue-without-address"]


def test_replay_may_be_fed_piece_by_piece() -> None:
    replay = BindingsReplay()
    replay.begin_file("one")
    for record in ORDERS:
        replay.apply(record, record.body)
    assert set(replay.finish().addresses) == {"orders"}
