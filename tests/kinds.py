"""The kinds of stores that the suite of behaviours runs on: in files, by each backend, in databases, and in
memory.

A fixture that is parametrized by `KINDS` and called `store_kind` is all that a test needs. What runs on a
database or memory is `long`, but for `QUICK`. Of a test for each of several backends, or
databases, one is quick; of one for each frozen store, `QUICK_STORES` are.
`pytest --kind sqlite` runs what is quick on files on that kind of store instead.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.frozen import FILE_STORES
from tests.memory import MemoryServer, make_known
from tests.tables.servers import Server

FILES, SQLITE, POSTGRESQL, MEMORY = KINDS = ("files", "sqlite", "postgresql", "memory")
_ELSEWHERE = (SQLITE, POSTGRESQL, MEMORY)
QUICK = {
    SQLITE: (
        "tests/writing/test_removing.py::test_removing_",
        "tests/writing/test_removing.py::test_moving_",
        "tests/writing/test_removing.py::test_making_",
        "tests/writing/test_removing.py::test_all_of_it_is_there_after_a_remount",
        "tests/writing/test_consuming_tools.py::test_each_message_is_worked_on_once[sqlite-command0",
        "tests/writing/test_consuming_tools.py::test_a_reader_that_is_killed",
        "tests/model/test_reopening.py::test_a_kind_becomes_another[sqlite-before6-",
    ),
    MEMORY: ("tests/writing/test_undo.py",),
}

BACKENDS = ("NIO", "ASYNCIO", "MAPPED")
DATABASES = ("sqlite", "postgresql", "mysql")
OF_ONE_RULE = {"url": DATABASES, "database": DATABASES, "kind": (*BACKENDS, *DATABASES)}
"""By the name of a parameter; any other may have the name of a backend."""

OF_STORES = (
    "tests/semantics/",
    "tests/writing/",
    *(
        f"tests/mount/test_{name}.py"
        for name in ("for_writing", "front", "hot_writes", "interrupted", "launch", "real_stores")
    ),
)
"""What mounts stores that it makes or copies; elsewhere are stores that are none, and codecs."""

QUICK_STORES = ("orders-basic", "amqp-exotic", "large-and-paged", "transactions")
"""Of a test for each of the frozen stores: all kinds of messages, and all that a message can wait for."""
OF_ALL_STORES = "tests/truth/test_truth_store.py"
"""All that each of them holds is compared there, quickly; other tests are of other ways to the same."""

_WRITING = "tests/store/writing/test_"
OF_FILES = (
    # Staged names lie beside the derived store, and go with it; so do names of tails, and the index.
    "tests/writing/test_staging.py::test_staged_names_outlive_the_mount_and_what_they_are_in",
    "tests/writing/test_staging.py::test_what_a_directory_does_not_publish_is_kept",
    "tests/writing/test_jobs.py::test_jobs_over_a_remount",
    "tests/writing/test_long_changes.py::test_a_publication_that_the_end_of_the_mount_breaks_off",
    "tests/writing/test_listed_names.py::test_names_of_tails_outlive_the_mount",
    "tests/writing/test_permissions.py::test_two_users_share_a_queue",
    "tests/writing/test_permissions.py::test_nobody_gets_round_what_was_said",
    "tests/writing/test_snapshots.py::test_it_outlives_the_mount",
    "tests/writing/test_staged_kept.py",
    "tests/writing/test_transactions.py::test_a_model_of_it_is_true_after_any_steps",
    "tests/writing/test_transactions.py::test_it_outlives_the_mount",
    "tests/writing/test_transactions.py::test_what_somebody_else_took_meanwhile",
    "tests/writing/test_snapshots.py::test_read_while_others_publish_and_remove",
    "tests/semantics/test_lines.py::test_parts_keep_their_names_and_content_in_the_next_mount",
    "tests/semantics/test_manners.py::test_inode_numbers_are_stable_and_distinct",
    "tests/semantics/test_mounting.py::test_a_dead_mount_is_replaced",
    "tests/semantics/test_mounting.py::test_every_way_to_end_it",
    f"{_WRITING}listed_names.py::test_names_of_tails_outlast_the_store_being_closed",
    f"{_WRITING}pages_consumed.py::test_what_nobody_consumed_is_not_read_again",
    # What lies beside the store is a copy of what was derived, which goes with that.
    f"{_WRITING}flushed.py::test_what_has_no_queue_any_more_is_put_aside",
    # They change files, or look at them by name, where there are tables.
    f"{_WRITING}bodies_of_pages.py::test_killed_between_the_page_and_the_commit",
    "tests/mount/test_for_writing.py::test_the_store_is_the_mounts_until_it_is_unmounted",
    # They count what C wrote to a journal, which is less where a database takes its time.
    "tests/mount/test_hot_writes.py::test_files_are_made_and_closed_in_c",
    "tests/mount/test_hot_writes.py::test_why_it_was_left_to_python",
    "tests/mount/test_front.py::test_what_lies_in_files_of_its_own",
    "tests/semantics/test_damage.py",
    "tests/semantics/test_manners.py::test_every_file_of_the_store_has_its_records_as_lines",
    "tests/semantics/test_manners.py::test_every_journal_file_says_what_keeps_it",
    "tests/semantics/test_manners.py::test_reading_everything_changes_nothing",
    "tests/semantics/test_manners.py::test_a_store_that_cannot_be_written_keeps_its_index_elsewhere",
    "tests/semantics/test_mounting.py::test_a_mount_point_inside_the_store_is_refused",
    "tests/writing/test_damage_kept.py",
    "tests/writing/test_full_disk.py",
    "tests/writing/test_readme.py::test_every_command_does_what_the_text_says",
    "tests/writing/test_odd_names_and_texts.py::test_queues_whose_names_are_lost",
    "tests/writing/test_snapshots.py::test_the_status_says_what_is_wrong",
    "tests/writing/test_snapshots.py::test_a_snapshot_s_folder_is_not_mounted_for_writing",
    f"{_WRITING}delivering.py::test_priority_then_arrival_then_pages_and_nothing_before_its_time",
    f"{_WRITING}forwarding.py::test_a_large_message_gets_a_body_of_its_own",
    *(
        f"{_WRITING}{name}.py"
        for name in (
            "checksums",
            "large_message_sync",
            "leftovers",
            "long_changes",
            "lost_pages",
            "ownership",
            "pages_taken_away",
            "retention",
            "snapshots",
            "taken_away",
            "upkeep",
        )
    ),
)
"""What is not asked of a store elsewhere, by test or module; docs/use/database.md says what differs."""

_numbers = itertools.count()


def of_kind(items: list[pytest.Item], kind: str) -> None:
    """Leave what is asked of a store, on one of that kind."""
    items[:] = [one for one in items if _kind(one) == kind or (_kind(one) is None and _is_of_stores(one))]


def _is_of_stores(item: pytest.Item) -> bool:
    fixtures = getattr(item, "fixturenames", ())
    elsewhere = item.nodeid.startswith(OF_FILES) or "mount_fake" in fixtures
    return item.nodeid.startswith(OF_STORES) and not elsewhere


def mark_long(items: list[pytest.Item], quick: str | None) -> None:
    """To be called before items are chosen by their marks. `quick`: the kind that is, beside files."""
    items[:] = [one for one in items if _kind(one) not in _ELSEWHERE or not one.nodeid.startswith(OF_FILES)]
    for item in items:
        if _kind(item) in (None, FILES, quick) or item.nodeid.startswith(QUICK.get(str(_kind(item)), ())):
            continue
        if _kind(item) in KINDS:
            item.add_marker(pytest.mark.long)
    _mark_long_but_one(items)
    _mark_long_but_some_stores(items)


def first_is_quick(quick: object, *others: object) -> list[ParameterSet]:
    """Parameters that show one rule; all others are for the long suite."""
    return [pytest.param(quick), *(pytest.param(one, marks=pytest.mark.long) for one in others)]


def some_pairs(some: Sequence[object], others: Sequence[object]) -> list[ParameterSet]:
    """Each with each, of which so many are quick that each comes once at the least."""
    shift = range(max(len(some), len(others)))
    quick = {(at % len(some), at % len(others)) for at in shift}
    return [
        pytest.param(one, other, marks=() if (at, place) in quick else pytest.mark.long)
        for at, one in enumerate(some)
        for place, other in enumerate(others)
    ]


def _mark_long_but_one(items: Iterable[pytest.Item]) -> None:
    """Which one that is goes by the name, so that each has its share. Tests that have chosen keep to it."""
    alike: dict[str, dict[str, pytest.Item]] = {}
    for item in items:
        kinds = [
            str(one) for name, one in _parameters(item).items() if one in OF_ONE_RULE.get(name, BACKENDS)
        ]
        if kinds:
            # Behind the name of the test: a folder may be called like one.
            test, _, case = item.nodeid.partition("[")
            alike.setdefault(f"{test}[{case.replace(kinds[0], '')}", {})[kinds[0]] = item
    for name, found in alike.items():
        if not any(one.get_closest_marker("long") for one in found.values()):
            quick = sorted(found)[zlib.crc32(name.encode()) % len(found)]
            for kind in found.keys() - {quick}:
                found[kind].add_marker(pytest.mark.long)


def _mark_long_but_some_stores(items: Iterable[pytest.Item]) -> None:
    """Tests that have chosen some stores keep to these."""
    found: dict[str, list[tuple[object, pytest.Item]]] = {}
    for item in items:
        stores = [one for one in _parameters(item).values() if one in FILE_STORES]
        found.setdefault(item.nodeid.partition("[")[0], []).extend((one, item) for one in stores)
    for name, of_stores in found.items():
        if {one for one, _ in of_stores} == {*FILE_STORES} and not name.startswith(OF_ALL_STORES):
            for one, item in of_stores:
                if one not in QUICK_STORES:
                    item.add_marker(pytest.mark.long)


def _parameters(item: pytest.Item) -> dict[str, object]:
    call = getattr(item, "callspec", None)
    return call.params if call else {}


def _kind(item: pytest.Item) -> object:
    given = _parameters(item)
    return given.get("store_kind", given.get("writable"))


def new_database(request: pytest.FixtureRequest, kind: str, folder: Path) -> str:
    """The URL of a database that is empty, or not there."""
    name = f"behaviour{next(_numbers)}"
    if kind == SQLITE:
        return f"sqlite:///{folder}/{name}.db"
    if kind == MEMORY:
        make_known()
        memory = MemoryServer()
        request.addfinalizer(memory.close)
        return memory.url
    server: Server = request.getfixturevalue("postgres")
    return server.make(name)
