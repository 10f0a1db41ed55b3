"""Address settings as management stored them (docs/format/bindings.md, types 52 and 25).

Both forms become the same thing: the keys of the JSON form with their values. A key that is not there is
inherited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from journalfs.errors import DecodeError
from journalfs.format.primitives import Reader

SettingValue: TypeAlias = bool | int | float | str


@dataclass(frozen=True, slots=True)
class StoredAddressSetting:
    """Settings for the addresses that `match` matches."""

    match: str
    values: dict[str, SettingValue]
    """By JSON key (`maxSizeBytes`), without those that are null."""
    text: str | None
    """The JSON exactly as a client sent it; None for the older binary form."""


def decode_address_setting_json(body: bytes | memoryview) -> StoredAddressSetting:
    """Decode type 52. Raises `DecodeError` when the text is no flat JSON object."""
    reader = Reader(body)
    match = reader.simple_string()
    at = reader.position
    text = reader.simple_string()
    try:
        raw = msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise DecodeError(at, f"the settings of {match!r} are no JSON: {error}") from error
    if not isinstance(raw, dict):
        raise DecodeError(at, f"the settings of {match!r} are no JSON object")
    values: dict[str, SettingValue] = {}
    for key, value in raw.items():
        if isinstance(value, bool | int | float | str):
            values[key] = value
        elif value is not None:
            raise DecodeError(at, f"the setting {key} of {match!r} is neither text, number nor boolean")
    return StoredAddressSetting(match, values, text)


def decode_address_setting(body: bytes | memoryview) -> StoredAddressSetting:
    """Decode type 25, the form before JSON.

    Early releases wrote it without the deletion policies; as the broker does, a record that does not fit
    the full layout is tried without them.
    """
    reader = Reader(body)
    match = reader.simple_string()
    at = reader.position
    try:
        values = _read_values(Reader(body, position=at), with_deletion_policies=True)
    except DecodeError:
        values = _read_values(Reader(body, position=at), with_deletion_policies=False)
    return StoredAddressSetting(match, values, None)


_DELETION_POLICIES: Final = frozenset({"configDeleteQueues", "configDeleteAddresses", "configDeleteDiverts"})

# S text, L i64, I i32, B boolean, D f64, all nullable; R a routing type, one byte that is always there.
_FIXED_LAYOUT: Final = (
    "addressFullMessagePolicy:S maxSizeBytes:L pageSizeBytes:L pageCacheMaxSize:I dropMessagesWhenFull:B "
    "maxDeliveryAttempts:I messageCounterHistoryDayLimit:I redeliveryDelay:L redeliveryMultiplier:D "
    "maxRedeliveryDelay:L deadLetterAddress:S expiryAddress:S expiryDelay:L defaultLastValueQueue:B "
    "redistributionDelay:L sendToDLAOnNoRoute:B slowConsumerThreshold:L slowConsumerCheckPeriod:L "
    "slowConsumerPolicy:S autoCreateJmsQueues:B autoDeleteJmsQueues:B autoCreateJmsTopics:B "
    "autoDeleteJmsTopics:B autoCreateQueues:B autoDeleteQueues:B configDeleteQueues:S "
    "autoCreateAddresses:B autoDeleteAddresses:B configDeleteAddresses:S managementBrowsePageSize:I "
    "maxSizeBytesRejectThreshold:L defaultMaxConsumers:I defaultPurgeOnNoConsumers:B "
    "defaultQueueRoutingType:R defaultAddressRoutingType:R"
)

_OPTIONAL_LAYOUT: Final = (
    "defaultExclusiveQueue:B defaultConsumersBeforeDispatch:I defaultDelayBeforeDispatch:L "
    "defaultConsumerWindowSize:I defaultLastValueKey:S defaultNonDestructive:B autoDeleteQueuesDelay:L "
    "autoDeleteAddressesDelay:L defaultGroupRebalance:B defaultGroupBuckets:I "
    "autoDeleteQueuesMessageCount:L autoDeleteCreatedQueues:B defaultRingSize:L "
    "redeliveryCollisionAvoidanceFactor:D defaultGroupFirstKey:S retroactiveMessageCount:L "
    "autoCreateDeadLetterResources:B deadLetterQueuePrefix:S deadLetterQueueSuffix:S "
    "autoCreateExpiryResources:B expiryQueuePrefix:S expiryQueueSuffix:S minExpiryDelay:L maxExpiryDelay:L "
    "enableMetrics:B defaultGroupRebalancePauseDispatch:B managementMessageAttributeSizeLimit:I "
    "slowConsumerThresholdMeasurementUnit:U enableIngressTimestamp:B configDeleteDiverts:S "
    "maxSizeMessages:L maxReadPageBytes:I maxReadPageMessages:I pageLimitBytes:L pageLimitMessages:L "
    "pageFullMessagePolicy:S autoDeleteQueuesSkipUsageCheck:B autoDeleteAddressesSkipUsageCheck:B "
    "idCacheSize:I prefetchPageBytes:I prefetchPageMessages:I"
)

_FIXED: Final = tuple(_FIXED_LAYOUT.split())
_OPTIONAL: Final = tuple(_OPTIONAL_LAYOUT.split())
_ROUTING_TYPES: Final = ("MULTICAST", "ANYCAST")
_THRESHOLD_UNITS: Final = {
    1: "MESSAGES_PER_SECOND",
    60: "MESSAGES_PER_MINUTE",
    3600: "MESSAGES_PER_HOUR",
    86400: "MESSAGES_PER_DAY",
}


def _read_values(reader: Reader, *, with_deletion_policies: bool) -> dict[str, SettingValue]:
    values: dict[str, SettingValue] = {}
    for index, field in enumerate((*_FIXED, *_OPTIONAL)):
        if index >= len(_FIXED) and not reader.remaining_bytes:
            break
        key, _, kind = field.partition(":")
        if key in _DELETION_POLICIES and not with_deletion_policies:
            continue
        value = _read_value(reader, kind)
        if value is not None:
            values[key] = value
    return values


def _read_value(reader: Reader, kind: str) -> SettingValue | None:
    at = reader.position
    if kind == "R":
        code = reader.i8()
        if code not in (0, 1):
            raise DecodeError(at, f"no routing type has the number {code}")
        return _ROUTING_TYPES[code]
    readers: dict[str, Callable[[], SettingValue]] = {
        "S": reader.simple_string,
        "L": reader.i64,
        "I": reader.i32,
        "U": reader.i32,
        "B": reader.boolean,
        "D": reader.f64,
    }
    value = reader.nullable(readers[kind])
    if kind != "U" or value is None:
        return value
    unit = _THRESHOLD_UNITS.get(int(value))
    if unit is None:
        raise DecodeError(at, f"no unit of measurement has the number {value}")
    return unit
