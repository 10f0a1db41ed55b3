"""docs/reference/settings.md and the table of settings say the same, and each has a test."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from journalfs.broker.queues.administering import QUEUE_NO_EFFECT, QUEUE_SETTINGS
from journalfs.config.address_settings import ADDRESS_SETTINGS, BY_NAME, NO_EFFECT, SettingDefinition
from journalfs.config.core_settings import CORE_BY_NAME, CORE_SETTINGS, ConfiguredValue, value_in_force
from journalfs.ids import QueueId
from journalfs.live.lost_bindings import lost_queue
from journalfs.live.settings import queue_settings
from tests.config.shown_by import SHOWN_BY
from tests.store.writing.test_settings import NEW_QUEUES

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `([A-Za-z-]+)`(?: \(([a-z]+)\))? \| (.+?) \| (.+) \|$", re.MULTILINE)
FOUND = ROW.findall((ROOT / "docs" / "reference" / "settings.md").read_text())
ROWS = {found[0]: found[1:] for found in FOUND}

EVERY = (*CORE_SETTINGS, *(one for one in ADDRESS_SETTINGS if one.name not in CORE_BY_NAME))


PLAIN = replace(lost_queue(QueueId(1), "queue", "address"), lost=False)
"""A queue as one is without settings."""


def queue_names() -> frozenset[str]:
    """What `.settings` of a queue can show, and what can be set in it."""
    all_set = replace(
        PLAIN.binding, filter="a = 1", metadata="user=u;", last_value_key="k", group_first_key="f"
    )
    return frozenset(queue_settings(replace(PLAIN, binding=all_set))) | QUEUE_SETTINGS.keys()


def shown(value: object) -> str:
    if value is None:
        return "none"
    if value == "":
        return "empty"
    return str(value).lower() if isinstance(value, bool) else str(value)


def default_of(definition: SettingDefinition) -> str:
    if definition.derived is not None:
        other, factor = definition.derived
        return other if factor == 1 else f"{factor} * {other}"
    if definition not in CORE_SETTINGS:
        return shown(definition.default)
    plain = {"journal-type": ConfiguredValue("NIO", "", None)}
    asynchronous, otherwise = value_in_force({}, definition.name), value_in_force(plain, definition.name)
    if definition.name == "journal-type" or asynchronous == otherwise:
        return shown(asynchronous)
    return f"{shown(asynchronous)} with ASYNCIO, else {shown(otherwise)}"


OF_AN_ADDRESS = frozenset({"paused", "routing-types"})
"""What an address itself has."""

SEEDS = {
    "artemis-paging": (
        "address-full-policy global-max-messages global-max-size journal-buffer-timeout "
        "jdbc-max-page-size-bytes management-address max-disk-usage max-read-page-bytes "
        "max-read-page-messages max-size-bytes max-size-messages min-disk-free page-full-policy "
        "page-limit-bytes page-limit-messages page-size-bytes page-sync-timeout paging-directory "
        "prefetch-page-bytes prefetch-page-messages"
    ),
    "artemis-persistence": (
        "bindings-directory create-bindings-dir create-journal-dir journal-buffer-size "
        "journal-buffer-timeout journal-compact-min-files journal-compact-percentage journal-datasync "
        "journal-directory journal-file-size journal-lock-acquisition-timeout journal-max-io "
        "journal-min-files journal-pool-files journal-sync-non-transactional "
        "journal-sync-transactional journal-type node-manager-lock-directory persistence-enabled "
        "bindings-table-name data-source-properties data-source-property jdbc-allowed-time-diff "
        "jdbc-connection-url jdbc-driver-class-name jdbc-journal-sync-period jdbc-lock-expiration "
        "jdbc-lock-renew-period jdbc-max-page-size-bytes jdbc-network-timeout "
        "jdbc-page-max-size-bytes jdbc-password jdbc-user large-message-table-name message-table-name "
        "node-manager-store-table-name page-store-table-name"
    ),
    "hornetq, activemq-1": (
        "bindings-directory create-bindings-dir create-journal-dir journal-buffer-size "
        "journal-buffer-timeout journal-compact-min-files journal-compact-percentage "
        "journal-directory journal-file-size journal-max-io journal-min-files "
        "journal-sync-non-transactional journal-sync-transactional journal-type persistence-enabled"
    ),
    "amq-message-store": (
        "archiveDataLogs cleanupInterval directory directoryArchive indexBinSize indexKeySize "
        "indexPageSize maxCheckpointMessageAddSize maxFileLength persistentIndex syncOnWrite useNIO"
    ),
}
"""Settings that the brokers' own pages on keeping and paging messages name, by page."""

FROM_SEEDS = frozenset(name for names in SEEDS.values() for name in names.split())


OF_A_DATABASE = frozenset(
    {
        "jdbc-driver-class-name",
        "jdbc-connection-url",
        "jdbc-user",
        "jdbc-password",
        "data-source-properties",
        "data-source-property",
        "jdbc-network-timeout",
        "jdbc-lock-renew-period",
        "jdbc-lock-expiration",
        "jdbc-lock-acquisition-timeout",
        "jdbc-allowed-time-diff",
        "jdbc-max-page-size-bytes",
        "jdbc-page-max-size-bytes",
        *(name for name in FROM_SEEDS if name.endswith("-table-name")),
    }
)
"""Settings of a store in a database that mean something here."""


OF_AN_AMQ_STORE = frozenset({"maxFileLength", "cleanupInterval", "directoryArchive", "archiveDataLogs"})
"""Settings of an AMQ Message Store that mean something to a mount that writes it."""


def test_every_setting_has_one_row() -> None:
    named = {definition.name for definition in EVERY} | OF_A_DATABASE
    assert ROWS.keys() == SHOWN_BY.keys()
    assert ROWS.keys() == named | queue_names() | OF_AN_ADDRESS | FROM_SEEDS
    assert [name for name, count in Counter(found[0] for found in FOUND).items() if count > 1] == []


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_row_says_what_it_does_and_a_test_shows_it(name: str) -> None:
    test = SHOWN_BY[name]
    file, _, function = test.partition("::")
    assert re.search(rf"^(async )?def {function}\(", (ROOT / "tests" / file).read_text(), re.MULTILINE), test


def test_what_means_nothing_says_so() -> None:
    nothing = {name for name, row in ROWS.items() if row[2].startswith("nothing")}
    foreign = FROM_SEEDS - {definition.name for definition in EVERY} - OF_A_DATABASE - OF_AN_AMQ_STORE
    of_the_store = {"journal-file-open-timeout", "management-address", "page-sync-timeout"}
    of_the_store.add("persist-id-cache")
    assert nothing == NO_EFFECT | QUEUE_NO_EFFECT | foreign | of_the_store


@pytest.mark.parametrize("name", sorted(queue_names()))
def test_the_row_of_a_queues_setting(name: str) -> None:
    """Its default is that of another setting, which has the same unit, or that of a queue that is made."""
    unit, default, _ = ROWS[name]
    if default in BY_NAME:
        assert unit == BY_NAME[default].unit
        if default in NEW_QUEUES:
            assert NEW_QUEUES[default][0] == name
    else:
        assert default == shown(queue_settings(PLAIN).get(name))


@pytest.mark.parametrize("definition", EVERY, ids=lambda definition: str(definition.name))
def test_a_row_agrees_with_the_table(definition: SettingDefinition) -> None:
    unit, default, _ = ROWS[definition.name]
    assert (unit, default) == (definition.unit, default_of(definition))
