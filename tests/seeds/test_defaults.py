"""Defaults are those of the broker's own classes; where a document says otherwise, the page says so."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from journalfs.clock import FakeClock
from journalfs.config.activemq_xml import ATTRIBUTES
from journalfs.config.address_settings import BY_NAME
from journalfs.config.core_settings import CORE_BY_NAME, ConfiguredValue, value_in_force
from journalfs.config.database import DatabaseSettings
from journalfs.config.journal_settings import journal_settings
from journalfs.config.known_names import DATABASE_ELEMENTS
from journalfs.config.layout import locate_store
from journalfs.engine.backend import BackendKind
from journalfs.store.creating import create_store
from journalfs.store.journal_setup import make_bindings_backend
from tests.broker.activemq5 import ARTIFACTS, BESIDE
from tests.broker.distribution import distribution_home
from tests.broker.older import libraries
from tests.config.test_unknown_names import schema_names

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("java") / "Defaults.java"
PAGE = (ROOT / "docs/reference/settings.md").read_text()

CORE = "ActiveMQDefaultConfiguration"
OF_CORE = {
    "persistence-enabled": "isDefaultPersistenceEnabled",
    "journal-directory": "getDefaultJournalDir",
    "bindings-directory": "getDefaultBindingsDirectory",
    "paging-directory": "getDefaultPagingDir",
    "large-messages-directory": "getDefaultLargeMessagesDir",
    "create-journal-dir": "isDefaultCreateJournalDir",
    "create-bindings-dir": "isDefaultCreateBindingsDir",
    "journal-datasync": "isDefaultJournalDatasync",
    "journal-sync-transactional": "isDefaultJournalSyncTransactional",
    "journal-sync-non-transactional": "isDefaultJournalSyncNonTransactional",
    "journal-file-size": "getDefaultJournalFileSize",
    "journal-min-files": "getDefaultJournalMinFiles",
    "journal-pool-files": "getDefaultJournalPoolFiles",
    "journal-max-io": "getDefaultJournalMaxIoAio",
    "journal-buffer-timeout": "getDefaultJournalBufferTimeoutAio",
    "journal-buffer-size": "getDefaultJournalBufferSizeAio",
    "journal-compact-min-files": "getDefaultJournalCompactMinFiles",
    "journal-compact-percentage": "getDefaultJournalCompactPercentage",
    "journal-file-open-timeout": "getDefaultJournalFileOpenTimeout",
    "journal-max-attic-files": "getDefaultJournalMaxAtticFiles",
    "large-message-sync": "isDefaultLargeMessageSync",
    "global-max-messages": "getDefaultMaxGlobalMessages",
    "max-disk-usage": "getDefaultMaxDiskUsage",
    "min-disk-free": "getDefaultMinDiskFree",
    "disk-scan-period": "getDefaultDiskScanPeriod",
    "message-expiry-scan-period": "getDefaultMessageExpiryScanPeriod",
    "address-queue-scan-period": "getDefaultAddressQueueScanPeriod",
    "id-cache-size": "getDefaultIdCacheSize",
    "persist-id-cache": "isDefaultPersistIdCache",
    "persist-delivery-count-before-delivery": "isDefaultPersistDeliveryCountBeforeDelivery",
    "purge-page-folders": "getPurgePageFolders",
}
OF_NIO = {
    "journal-max-io": "getDefaultJournalMaxIoNio",
    "journal-buffer-timeout": "getDefaultJournalBufferTimeoutNio",
    "journal-buffer-size": "getDefaultJournalBufferSizeNio",
}
OF_ADDRESSES = {
    "max-size-bytes": "getMaxSizeBytes",
    "max-size-messages": "getMaxSizeMessages",
    "page-size-bytes": "getPageSizeBytes",
    "address-full-policy": "getAddressFullMessagePolicy",
    "max-read-page-messages": "getMaxReadPageMessages",
    "page-limit-bytes": "getPageLimitBytes",
    "page-limit-messages": "getPageLimitMessages",
    "page-full-policy": "getPageFullMessagePolicy",
}
OF_DATABASE = {
    "message_table": "getMessageTableName",
    "bindings_table": "getBindingsTableName",
    "large_message_table": "getLargeMessageTableName",
    "page_store_table": "getPageStoreTableName",
    "node_manager_table": "getNodeManagerStoreTableName",
    "network_timeout_ms": "getJdbcNetworkTimeout",
    "lock_renew_period_ms": "getJdbcLockRenewPeriodMillis",
    "lock_expiration_ms": "getJdbcLockExpirationMillis",
    "lock_acquisition_timeout_ms": "getJdbcLockAcquisitionTimeoutMillis",
    "allowed_time_diff_ms": "getJdbcAllowedTimeDiff",
    "sync_period_ms": "getJdbcJournalSyncPeriodMillis",
    "page_bytes_max": "getMaxPageSizeBytes",
}
NIO = {"journal-type": ConfiguredValue("NIO", "", None)}


def told_by(jars: Path, *classes: str) -> dict[str, str]:
    """What methods of classes return, by `Class.method`."""
    command = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(PROGRAM), *classes]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def java(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_defaults_are_the_brokers() -> None:
    told = told_by(
        distribution_home() / "lib",
        "org.apache.activemq.artemis.api.config.ActiveMQDefaultConfiguration",
        "org.apache.activemq.artemis.core.settings.impl.AddressSettings",
        "org.apache.activemq.artemis.core.config.storage.DatabaseStorageConfiguration",
    )
    ours = {f"{CORE}.{method}": java(value_in_force({}, name)) for name, method in OF_CORE.items()}
    ours |= {f"{CORE}.{method}": java(value_in_force(NIO, name)) for name, method in OF_NIO.items()}
    ours |= {
        f"AddressSettings.{method}": java(BY_NAME[name].default) for name, method in OF_ADDRESSES.items()
    }
    database = DatabaseSettings(url="")
    ours |= {
        f"DatabaseStorageConfiguration.{method}": java(getattr(database, field))
        for field, method in OF_DATABASE.items()
    }
    assert ours == {name: told[name] for name in ours}
    assert value_in_force({}, "journal-type") == "ASYNCIO"
    # Followed otherwise, for a reason that the page gives.
    assert told[f"{CORE}.getDefaultJournalLockAcquisitionTimeout"] == "-1"
    assert value_in_force({}, "journal-lock-acquisition-timeout") == 0


@pytest.mark.parametrize(
    "name",
    ["journal-max-io", "jdbc-lock-renew-period", "journal-lock-acquisition-timeout", "address-full-policy",
     "global-max-size", "jdbc-page-max-size-bytes", "useNIO"],
)  # fmt: skip
def test_the_page_says_where_documents_and_classes_differ(name: str) -> None:
    section = PAGE.partition("## Where the brokers' pages and classes differ")[2].partition("\n## ")[0]
    assert f"| {name} |" in section


def test_what_follows_the_machine_of_a_broker() -> None:
    """Half of the memory of a Java process, and there is none here."""
    assert CORE_BY_NAME["global-max-size"].default is None
    assert "| global-max-size | half of the memory of the JVM |" in PAGE


def test_what_no_broker_starts_with() -> None:
    of_schema = schema_names("databaseStoreType")
    assert "jdbc-page-max-size-bytes" in DATABASE_ELEMENTS - of_schema
    assert "jdbc-max-page-size-bytes" in of_schema


def test_the_bindings_journal_is_always_nio(tmp_path: Path) -> None:
    for kind in ("ASYNCIO", "MAPPED"):
        root = tmp_path / kind
        create_store(root, {"journal-type": kind}, FakeClock(), warn=print)
        layout = locate_store(root)
        backend = make_bindings_backend(layout, journal_settings(layout.config))
        assert backend.kind is BackendKind.NIO
        backend.close()


@pytest.mark.long
def test_defaults_of_the_adapter() -> None:
    home = libraries("5.8.0", artifact=ARTIFACTS["5.8.0"], also=BESIDE["5.8.0"])
    told = told_by(home, "org.apache.activemq.store.amq.AMQPersistenceAdapter")
    told = {name.partition(".")[2].lower(): value for name, value in told.items()}
    plain = {one.name: one.default for one in ATTRIBUTES if not one.name.startswith("directory")}
    found = {name: told.get(f"get{name}".lower(), told.get(f"is{name}".lower())) for name in plain}
    assert found == plain
