"""Address settings as the broker prints them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from journalfs.exchange.printing import java
from journalfs.format.address_settings import SettingValue

_NAMES: Final = [
    "addressFullMessagePolicy",
    "maxSizeBytes",
    "maxReadPageBytes",
    "maxReadPageMessages",
    "prefetchPageBytes",
    "prefetchPageMessages",
    "pageLimitBytes",
    "pageLimitMessages",
    "pageFullMessagePolicy",
    "maxSizeMessages",
    "pageSizeBytes",
    "pageMaxCache",
    "dropMessagesWhenFull",
    "maxDeliveryAttempts",
    "messageCounterHistoryDayLimit",
    "redeliveryDelay",
    "redeliveryMultiplier",
    "redeliveryCollisionAvoidanceFactor",
    "maxRedeliveryDelay",
    "deadLetterAddress",
    "expiryAddress",
    "expiryDelay",
    "minExpiryDelay",
    "maxExpiryDelay",
    "noExpiry",
    "defaultLastValueQueue",
    "defaultLastValueKey",
    "defaultNonDestructive",
    "defaultExclusiveQueue",
    "defaultGroupRebalance",
    "defaultGroupRebalancePauseDispatch",
    "defaultGroupBuckets",
    "defaultGroupFirstKey",
    "redistributionDelay",
    "sendToDLAOnNoRoute",
    "slowConsumerThreshold",
    "slowConsumerThresholdMeasurementUnit",
    "slowConsumerCheckPeriod",
    "slowConsumerPolicy",
    "autoCreateJmsQueues",
    "autoDeleteJmsQueues",
    "autoCreateJmsTopics",
    "autoDeleteJmsTopics",
    "autoCreateQueues",
    "autoDeleteQueues",
    "autoDeleteCreatedQueues",
    "autoDeleteQueuesDelay",
    "autoDeleteQueuesSkipUsageCheck",
    "autoDeleteQueuesMessageCount",
    "defaultRingSize",
    "retroactiveMessageCount",
    "configDeleteQueues",
    "autoCreateAddresses",
    "autoDeleteAddresses",
    "autoDeleteAddressesDelay",
    "autoDeleteAddressesSkipUsageCheck",
    "configDeleteAddresses",
    "configDeleteDiverts",
    "managementBrowsePageSize",
    "maxSizeBytesRejectThreshold",
    "defaultMaxConsumers",
    "defaultPurgeOnNoConsumers",
    "defaultConsumersBeforeDispatch",
    "defaultDelayBeforeDispatch",
    "defaultQueueRoutingType",
    "defaultAddressRoutingType",
    "defaultConsumerWindowSize",
    "autoCreateDeadLetterResources",
    "deadLetterQueuePrefix",
    "deadLetterQueueSuffix",
    "autoCreateExpiryResources",
    "expiryQueuePrefix",
    "expiryQueueSuffix",
    "enableMetrics",
    "managementMessageAttributeSizeLimit",
    "enableIngressTimestamp",
    "idCacheSize",
    "queuePrefetch",
    "initialQueueBufferSize",
]
_KEYS: Final = {"pageMaxCache": "pageCacheMaxSize"}
"""Of those that are printed under another name."""
_UNLESS_SAID: Final = {
    "slowConsumerThresholdMeasurementUnit": "MESSAGES_PER_SECOND",
    "managementBrowsePageSize": "200",
}


def settings_text(values: Mapping[str, SettingValue]) -> str:
    """`values` by the names of the JSON form."""
    shown = ", ".join(f"{name}={_value(name, values.get(_KEYS.get(name, name)))}" for name in _NAMES)
    return f"AddressSettings{{{shown}}}"


def _value(name: str, value: SettingValue | None) -> str:
    if value is None:
        return _UNLESS_SAID.get(name, "null")
    return java.number(value) if isinstance(value, float) else java.or_null(value)
