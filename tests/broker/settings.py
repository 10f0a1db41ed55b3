"""broker.xml as the tests need it: small files, so that what takes a day elsewhere takes a second here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import escape

import pytest

JournalType = Literal["NIO", "ASYNCIO", "MAPPED"]
ONE_IS_QUICK = (
    "NIO",
    pytest.param("ASYNCIO", marks=pytest.mark.long),
    pytest.param("MAPPED", marks=pytest.mark.long),
)
"""For what a quick run need not show of each: what goes on with each of them does so in others."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """What differs between the brokers of the tests. Sizes as broker.xml has them (`100K`)."""

    journal_type: JournalType = "NIO"
    journal_file_size: str = "100K"
    journal_min_files: int = 2
    journal_compact_min_files: int = 4
    journal_compact_percentage: int = 30
    journal_pool_files: int = 4
    """How many files it keeps; what it needs no more is deleted beyond that, and used again otherwise. -1:
    it keeps all."""
    page_size_bytes: str = "20K"
    address_max_size_bytes: str = "-1"
    """The size at which every address starts paging; -1 never."""
    paging_addresses: tuple[str, ...] = ()
    """Addresses that start paging at `paging_max_size_bytes`, whatever the others do."""
    paging_max_size_bytes: str = "40K"
    max_delivery_attempts: int = 10
    message_expiry_scan_period_ms: int = 200
    auto_delete: bool = False
    """Whether queues and addresses that were made by themselves go by themselves."""
    address_queue_scan_period_ms: int = 30_000
    database: str | None = None
    """What is said in `database-store`; None: the store is in files."""
    journal_lock_acquisition_timeout_ms: int = -1
    """How long a start waits for another process to let go of the store; -1 for ever."""


@dataclass(frozen=True, slots=True)
class Store:
    """The folders of a broker's data directory."""

    data: Path

    @property
    def journal(self) -> Path:
        return self.data / "journal"

    @property
    def bindings(self) -> Path:
        return self.data / "bindings"

    @property
    def paging(self) -> Path:
        return self.data / "paging"

    @property
    def large(self) -> Path:
        return self.data / "large-messages"

    def journal_files(self) -> set[str]:
        return {path.name for path in self.journal.glob("activemq-data-*.amq")}

    def page_files(self) -> set[str]:
        return {str(path.relative_to(self.paging)) for path in self.paging.glob("*/*.page")}


def acceptor(port: int) -> str:
    """The one acceptor: every protocol, on loopback only."""
    return (
        f"tcp://127.0.0.1:{port}?protocols=CORE,AMQP,STOMP,MQTT,OPENWIRE;amqpMinLargeMessageSize=102400;"
        "supportAdvisory=false;useEpoll=false"
    )


def broker_xml(settings: BrokerSettings, port: int) -> str:
    lock_timeout_ms = settings.journal_lock_acquisition_timeout_ms
    permissions = "\n".join(
        f'        <permission type="{kind}" roles="amq"/>'
        for kind in (
            "createNonDurableQueue",
            "deleteNonDurableQueue",
            "createDurableQueue",
            "deleteDurableQueue",
            "createAddress",
            "deleteAddress",
            "consume",
            "browse",
            "send",
            "manage",
        )
    )
    paging = "\n".join(
        _address_setting(name, settings.paging_max_size_bytes, settings) for name in settings.paging_addresses
    )
    tables = (
        f"<store><database-store>{settings.database}</database-store></store>" if settings.database else ""
    )
    return f"""\
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>journalfs-tests</name>
    <persistence-enabled>true</persistence-enabled>
    {tables}
    <security-enabled>false</security-enabled>
    <journal-type>{settings.journal_type}</journal-type>
    <journal-lock-acquisition-timeout>{lock_timeout_ms}</journal-lock-acquisition-timeout>
    <journal-file-size>{settings.journal_file_size}</journal-file-size>
    <journal-min-files>{settings.journal_min_files}</journal-min-files>
    <journal-pool-files>{settings.journal_pool_files}</journal-pool-files>
    <journal-compact-min-files>{settings.journal_compact_min_files}</journal-compact-min-files>
    <journal-compact-percentage>{settings.journal_compact_percentage}</journal-compact-percentage>
    <paging-directory>data/paging</paging-directory>
    <bindings-directory>data/bindings</bindings-directory>
    <journal-directory>data/journal</journal-directory>
    <large-messages-directory>data/large-messages</large-messages-directory>
    <message-expiry-scan-period>{settings.message_expiry_scan_period_ms}</message-expiry-scan-period>
    <address-queue-scan-period>{settings.address_queue_scan_period_ms}</address-queue-scan-period>
    <transaction-timeout>3000000</transaction-timeout>
    <max-disk-usage>100</max-disk-usage>
    <critical-analyzer>false</critical-analyzer>
    <acceptors>
      <acceptor name="artemis">{escape(acceptor(port))}</acceptor>
    </acceptors>
    <security-settings>
      <security-setting match="#">
{permissions}
      </security-setting>
    </security-settings>
    <address-settings>
{_address_setting("#", settings.address_max_size_bytes, settings)}
{paging}
    </address-settings>
    <addresses>
      <address name="DLQ"><anycast><queue name="DLQ"/></anycast></address>
      <address name="ExpiryQueue"><anycast><queue name="ExpiryQueue"/></anycast></address>
    </addresses>
  </core>
</configuration>
"""


def _address_setting(match: str, max_size_bytes: str, settings: BrokerSettings) -> str:
    return f"""\
      <address-setting match="{escape(match)}">
        <dead-letter-address>DLQ</dead-letter-address>
        <expiry-address>ExpiryQueue</expiry-address>
        <redelivery-delay>0</redelivery-delay>
        <max-delivery-attempts>{settings.max_delivery_attempts}</max-delivery-attempts>
        <address-full-policy>PAGE</address-full-policy>
        <auto-delete-queues>{str(settings.auto_delete).lower()}</auto-delete-queues>
        <auto-delete-addresses>{str(settings.auto_delete).lower()}</auto-delete-addresses>
        <max-size-bytes>{max_size_bytes}</max-size-bytes>
        <page-size-bytes>{settings.page_size_bytes}</page-size-bytes>
        <max-read-page-bytes>-1</max-read-page-bytes>
        <max-read-page-messages>-1</max-read-page-messages>
      </address-setting>"""
