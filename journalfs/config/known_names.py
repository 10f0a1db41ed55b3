"""Names that the files of brokers may set, and what is found in them that a broker does not know.

`broker_xml`, `database` and `records.older.amq_append` ask it; a mount and `check` tell of each unknown name,
`create` refuses it. Nothing here reads a value.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

UNKNOWN: Final = "unknown-setting"
NO_EFFECT: Final = "setting-without-effect"


@dataclass(frozen=True, slots=True)
class SettingFinding:
    """Something about a setting that its author is to know: that is no reason to leave a store closed."""

    kind: str
    file: str
    line: int | None
    setting: str
    reason: str

    @property
    def place(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @property
    def text(self) -> str:
        return f"{self.place}: {self.setting}: {self.reason}"


def unknown_name(
    name: str, known: Iterable[str], file: object, line: int | None, *, of: str, belongs: str = ""
) -> SettingFinding | None:
    """The finding for a name that is not among `known`, with the nearest one that is; None for a known one.
    `of`: what the names are of, `belongs`: where the name would mean something, for people.
    """
    names = set(known)
    if name in names:
        return None
    near = difflib.get_close_matches(name, sorted(names), n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    meant = f"; {belongs}" if belongs else meant
    return SettingFinding(UNKNOWN, str(file), line, name, f"is not known as {of}, so it has no effect{meant}")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CORE_ELEMENTS: Final = _words(
    """
    acceptors address-queue-scan-period address-settings addresses amqp-use-core-subscription-naming
    async-connection-execution-enabled authentication-cache-size authorization-cache-size
    bindings-directory bridges broadcast-groups broker-balancers broker-connections broker-plugins
    cluster-connections cluster-password cluster-user configuration-file-refresh-period
    connection-routers connection-ttl-check-interval connection-ttl-override connector-services
    connectors create-bindings-dir create-journal-dir critical-analyzer critical-analyzer-check-period
    critical-analyzer-policy critical-analyzer-timeout discovery-groups disk-scan-period diverts
    federations global-max-messages global-max-size global-max-size-percent-of-jvm-max-memory
    graceful-shutdown-enabled graceful-shutdown-timeout grouping-handler ha-policy id-cache-size
    internal-naming-prefix jmx-domain jmx-management-enabled jmx-use-broker-name journal-buffer-size
    journal-buffer-timeout journal-compact-min-files journal-compact-percentage journal-datasync
    journal-device-block-size journal-directory journal-file-open-timeout journal-file-size
    journal-lock-acquisition-timeout journal-max-io journal-min-files journal-pool-files
    journal-retention-directory journal-sync-non-transactional journal-sync-transactional journal-type
    large-message-sync large-messages-directory literal-match-markers log-delegate-factory-class-name
    log-journal-write-rate management-address management-message-rbac management-notification-address
    management-rbac-prefix mask-password max-disk-usage max-redelivery-records memory-measure-interval
    memory-warning-threshold message-counter-enabled message-counter-max-day-history
    message-counter-sample-period message-expiry-scan-period message-expiry-thread-priority metrics
    metrics-plugin min-disk-free mirror-ack-manager-page-attempts mirror-ack-manager-queue-attempts
    mirror-ack-manager-retry-delay mirror-ack-manager-warn-unacked mirror-page-transaction
    mqtt-session-scan-interval mqtt-session-state-persistence-timeout
    mqtt-subscription-persistence-enabled name network-check-NIC network-check-URL-list
    network-check-list network-check-period network-check-ping-command network-check-ping6-command
    network-check-timeout node-manager-lock-directory page-max-concurrent-io page-sync-timeout
    paging-directory password-codec perf-blast-pages persist-delivery-count-before-delivery
    persist-id-cache persistence-enabled populate-validated-user purge-page-folders queues
    read-whole-page reject-empty-validated-user remoting-incoming-interceptors
    remoting-outgoing-interceptors resolve-protocols resource-limit-settings run-sync-speed-test
    scheduled-thread-pool-max-size security-enabled security-invalidation-interval security-settings
    server-dump-interval store suppress-session-notifications system-property-prefix
    temporary-queue-namespace thread-pool-max-size transaction-timeout transaction-timeout-scan-period
    uuid-namespace view-permission-method-match-pattern wild-card-routing-enabled wildcard-addresses
    """
)
"""What may stand in `<core>` of a broker.xml, of any release from 1.0 to 2.44 (their schemas)."""

HORNETQ_ELEMENTS: Final = _words(
    """
    allow-failback backup backup-group-name check-for-live-server clustered failback-delay
    failover-on-shutdown file-deployment-enabled live-connector-ref max-saved-replicated-journals-size
    remoting-interceptors replication-clustername resolveProtocols shared-store
    """
)
"""What may stand in the `<configuration>` of HornetQ 2.2 to 2.4 besides."""

DATABASE_ELEMENTS: Final = _words(
    """
    bindings-table-name data-source-class-name data-source-properties jdbc-allowed-time-diff
    jdbc-connection-url jdbc-driver-class-name jdbc-journal-sync-period jdbc-lock-expiration
    jdbc-lock-renew-period jdbc-max-page-size-bytes jdbc-network-timeout jdbc-password jdbc-user
    jms-bindings-table-name large-message-table-name message-table-name node-manager-store-table-name
    page-store-table-name
    jdbc-lock-acquisition-timeout jdbc-page-max-size-bytes
    """
)
"""What may stand in `<database-store>`; the last two are read here, and by no broker from a broker.xml."""

DATA_SOURCE: Final = "org.apache.commons.dbcp2.BasicDataSource"
DATA_SOURCE_PROPERTIES: Final = _words(
    """
    abandonedLogWriter abandonedUsageTracking accessToUnderlyingConnectionAllowed autoCommitOnReturn
    cacheState clearStatementPoolOnReturn connectionFactoryClassName connectionInitSqls
    connectionProperties defaultAutoCommit defaultCatalog defaultQueryTimeout defaultReadOnly
    defaultSchema defaultTransactionIsolation disconnectionIgnoreSqlCodes disconnectionSqlCodes driver
    driverClassLoader driverClassName durationBetweenEvictionRuns enableAutoCommitOnReturn
    evictionPolicyClassName fastFailValidation initialSize jmxName lifo logAbandoned
    logExpiredConnections logWriter loginTimeout maxConn maxConnLifetimeMillis maxIdle
    maxOpenPreparedStatements maxTotal maxWait maxWaitMillis minEvictableIdle minEvictableIdleTimeMillis
    minIdle numTestsPerEvictionRun password poolPreparedStatements registerConnectionMBean
    removeAbandonedOnBorrow removeAbandonedOnMaintenance removeAbandonedTimeout rollbackOnReturn
    softMinEvictableIdle softMinEvictableIdleTimeMillis testOnBorrow testOnCreate testOnReturn
    testWhileIdle timeBetweenEvictionRunsMillis url username validationQuery validationQueryTimeout
    """
)
"""Properties of `DATA_SOURCE`, the pool that a broker uses unless `data-source-class-name` names another. It
leaves out others without a word.
"""

AMQ_ATTRIBUTES: Final = _words(
    """
    archiveDataLogs asyncDataManager brokerName brokerService checkpointInterval cleanupInterval
    directory directoryArchive disableLocking forceRecoverReferenceStore id indexBinSize indexKeySize
    indexLoadFactor indexMaxBinSize indexPageSize journalThreadPriority maxCheckpointMessageAddSize
    maxFileLength maxReferenceFileLength persistentIndex recoverReferenceStore referenceStoreAdapter
    syncOnTransaction syncOnWrite taskRunnerFactory usageManager useDedicatedTaskRunner useNio
    wireFormat
    """
)
"""Attributes of `amqPersistenceAdapter` in ActiveMQ 5.4 to 5.8. The broker's page writes `useNIO` for
`useNio`, so case does not count.
"""
