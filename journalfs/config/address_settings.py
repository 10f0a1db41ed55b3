"""What defines a setting; and every address setting of the broker (2.44): name, key, type, unit, default."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, TypeAlias

from journalfs.config.sizes import parse_size_bytes

Value: TypeAlias = bool | int | float | str


class Kind(Enum):
    BYTES = "bytes"
    """A number that may be written with K, M or G."""
    INTEGER = "integer"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    TEXT = "text"
    CHOICE = "choice"


@dataclass(frozen=True, slots=True)
class SettingDefinition:
    name: str
    """As in broker.xml, kebab-case."""
    json_key: str
    """As management and the bindings journal write it."""
    kind: Kind
    default: Value | None
    """None: not set, or derived from another setting (`derived`)."""
    unit: str = ""
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    not_zero: bool = False
    """True where a minimum of -1 stands for no limit, and 0 for nothing."""
    power_of_two: bool = False
    in_xml: bool = True
    """False for what a broker's own file cannot set."""
    derived: tuple[str, int] | None = None
    """(other setting, factor): the default when this one is not set."""


def parse_value(definition: SettingDefinition, text: str) -> Value:
    """The value that `text` stands for in broker.xml. Raises `ValueError` that says what would be right."""
    text = text.strip()
    if definition.kind is Kind.BOOLEAN:
        # The broker takes everything but "true" as false; so do we, except for what cannot have been meant
        # so.
        if text.lower() not in ("true", "false", "1", "0"):
            raise ValueError(f"{text!r} is neither true nor false")
        return text.lower() == "true"
    if definition.kind is Kind.CHOICE:
        if text not in definition.choices:
            raise ValueError(f"{text!r} is none of {', '.join(definition.choices)}")
        return text
    if definition.kind is Kind.TEXT:
        return text
    try:
        number: int | float = _number(definition.kind, text)
    except ValueError as error:
        raise ValueError(str(error) if definition.kind is Kind.BYTES else f"{text!r} is no number") from None
    return _within_bounds(definition, number)


def native_value(definition: SettingDefinition, value: object) -> Value:
    """The value that TOML holds for a setting. Raises `ValueError` that says what would be right."""
    if definition.kind is Kind.BYTES and isinstance(value, str):
        return parse_value(definition, value)
    if not isinstance(value, Value) or not accepts(definition, value):
        raise ValueError(f"{value!r} is not {_WANTED[definition.kind]}{_listed(definition)}")
    return value if isinstance(value, bool | str) else _within_bounds(definition, value)


_WANTED: Final = {
    Kind.BYTES: "a number of bytes, or one with K, M or G in quotes",
    Kind.INTEGER: "a whole number",
    Kind.DECIMAL: "a number",
    Kind.BOOLEAN: "true or false (without quotes)",
    Kind.TEXT: "text in quotes",
    Kind.CHOICE: "one of ",
}


def _listed(definition: SettingDefinition) -> str:
    return ", ".join(f'"{choice}"' for choice in definition.choices)


def _within_bounds(definition: SettingDefinition, number: int | float) -> int | float:
    if not math.isfinite(number):
        raise ValueError(f"{number} is no finite number")
    if definition.minimum is not None and number < definition.minimum:
        raise ValueError(f"{number} is below {definition.minimum}")
    if definition.maximum is not None and number > definition.maximum:
        raise ValueError(f"{number} is above {definition.maximum}")
    if definition.not_zero and number == 0:
        raise ValueError("0 would be none at all; -1 is no limit")
    if definition.power_of_two and int(number).bit_count() != 1:
        raise ValueError(f"{number} is no power of two")
    return number


def accepts(definition: SettingDefinition, value: Value) -> bool:
    """True when `value`, from JSON, is of the setting's type."""
    match definition.kind:
        case Kind.BOOLEAN:
            return isinstance(value, bool)
        case Kind.DECIMAL:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Kind.BYTES | Kind.INTEGER:
            return isinstance(value, int) and not isinstance(value, bool)
        case Kind.CHOICE:
            return value in definition.choices
        case Kind.TEXT:
            return isinstance(value, str)


def _number(kind: Kind, text: str) -> int | float:
    if kind is Kind.BYTES:
        return parse_size_bytes(text)
    if "_" in text:  # Python groups digits so, and no broker
        raise ValueError(text)
    return float(text) if kind is Kind.DECIMAL else int(text)


_ROUTING: Final = ("MULTICAST", "ANYCAST")
_DELETION: Final = ("OFF", "FORCE")
_FULL_POLICIES: Final = ("PAGE", "DROP", "BLOCK", "FAIL")
_RATES: Final = ("MESSAGES_PER_SECOND", "MESSAGES_PER_MINUTE", "MESSAGES_PER_HOUR", "MESSAGES_PER_DAY")


def _bytes(name: str, key: str, default: int | None, minimum: int | None = None) -> SettingDefinition:
    return SettingDefinition(name, key, Kind.BYTES, default, "bytes", minimum)


def _integer(
    name: str, key: str, default: int | None, unit: str = "", minimum: int | None = None, **other: Any
) -> SettingDefinition:
    return SettingDefinition(name, key, Kind.INTEGER, default, unit, minimum, **other)


def _limit(
    name: str, key: str, default: int | None, unit: str = "messages", **other: Any
) -> SettingDefinition:
    """Something above 0, or -1 for no limit."""
    kind = Kind.BYTES if unit == "bytes" else Kind.INTEGER
    return SettingDefinition(name, key, kind, default, unit, -1, not_zero=True, **other)


def _boolean(name: str, key: str, default: bool, *, in_xml: bool = True) -> SettingDefinition:
    return SettingDefinition(name, key, Kind.BOOLEAN, default, in_xml=in_xml)


def _text(name: str, key: str, default: str | None) -> SettingDefinition:
    return SettingDefinition(name, key, Kind.TEXT, default)


def _choice(name: str, key: str, default: str | None, choices: tuple[str, ...]) -> SettingDefinition:
    return SettingDefinition(name, key, Kind.CHOICE, default, choices=choices)


_FULL: Final = (
    _choice("address-full-policy", "addressFullMessagePolicy", "PAGE", _FULL_POLICIES),
    _bytes("max-size-bytes", "maxSizeBytes", -1),
    _integer("max-size-messages", "maxSizeMessages", -1, "messages"),
    _bytes("max-size-bytes-reject-threshold", "maxSizeBytesRejectThreshold", -1),
    _bytes("page-size-bytes", "pageSizeBytes", 10 * 1024 * 1024, 1),
    _limit("page-limit-bytes", "pageLimitBytes", None, "bytes"),
    _limit("page-limit-messages", "pageLimitMessages", None),
    _choice("page-full-policy", "pageFullMessagePolicy", None, ("DROP", "FAIL")),
    _limit("max-read-page-bytes", "maxReadPageBytes", None, "bytes", derived=("page-size-bytes", 2)),
    _limit("max-read-page-messages", "maxReadPageMessages", -1),
    _limit("prefetch-page-bytes", "prefetchPageBytes", None, "bytes", derived=("max-read-page-bytes", 1)),
    _limit("prefetch-page-messages", "prefetchPageMessages", None, derived=("max-read-page-messages", 1)),
    _integer("page-max-cache-size", "pageCacheMaxSize", 5, "pages"),
    _boolean("drop-messages-when-full", "dropMessagesWhenFull", False, in_xml=False),
)

_REDELIVERY: Final = (
    _integer("max-delivery-attempts", "maxDeliveryAttempts", 10, "attempts"),
    _integer("redelivery-delay", "redeliveryDelay", 0, "ms"),
    SettingDefinition("redelivery-delay-multiplier", "redeliveryMultiplier", Kind.DECIMAL, 1.0),
    SettingDefinition(
        "redelivery-collision-avoidance-factor",
        "redeliveryCollisionAvoidanceFactor",
        Kind.DECIMAL,
        0.0,
        minimum=0,
        maximum=1,
    ),
    _integer("max-redelivery-delay", "maxRedeliveryDelay", None, "ms", derived=("redelivery-delay", 10)),
    _text("dead-letter-address", "deadLetterAddress", None),
    _boolean("send-to-dla-on-no-route", "sendToDLAOnNoRoute", False),
    _boolean("auto-create-dead-letter-resources", "autoCreateDeadLetterResources", False),
    _text("dead-letter-queue-prefix", "deadLetterQueuePrefix", "DLQ."),
    _text("dead-letter-queue-suffix", "deadLetterQueueSuffix", ""),
)

_EXPIRY: Final = (
    _text("expiry-address", "expiryAddress", None),
    _integer("expiry-delay", "expiryDelay", -1, "ms"),
    _integer("min-expiry-delay", "minExpiryDelay", -1, "ms"),
    _integer("max-expiry-delay", "maxExpiryDelay", -1, "ms"),
    _boolean("no-expiry", "noExpiry", False),
    _boolean("auto-create-expiry-resources", "autoCreateExpiryResources", False),
    _text("expiry-queue-prefix", "expiryQueuePrefix", "EXP."),
    _text("expiry-queue-suffix", "expiryQueueSuffix", ""),
)

_QUEUE_DEFAULTS: Final = (
    _boolean("default-last-value-queue", "defaultLastValueQueue", False),
    _text("default-last-value-key", "defaultLastValueKey", None),
    _boolean("default-non-destructive", "defaultNonDestructive", False),
    _boolean("default-exclusive-queue", "defaultExclusiveQueue", False),
    _boolean("default-group-rebalance", "defaultGroupRebalance", False),
    _boolean("default-group-rebalance-pause-dispatch", "defaultGroupRebalancePauseDispatch", False),
    _integer("default-group-buckets", "defaultGroupBuckets", -1),
    _text("default-group-first-key", "defaultGroupFirstKey", None),
    _integer("default-max-consumers", "defaultMaxConsumers", -1, "consumers"),
    _boolean("default-purge-on-no-consumers", "defaultPurgeOnNoConsumers", False),
    _integer("default-consumers-before-dispatch", "defaultConsumersBeforeDispatch", 0, "consumers"),
    _integer("default-delay-before-dispatch", "defaultDelayBeforeDispatch", -1, "ms"),
    _choice("default-queue-routing-type", "defaultQueueRoutingType", "MULTICAST", _ROUTING),
    _choice("default-address-routing-type", "defaultAddressRoutingType", "MULTICAST", _ROUTING),
    _integer("default-consumer-window-size", "defaultConsumerWindowSize", 1024 * 1024, "bytes"),
    _integer("default-ring-size", "defaultRingSize", -1, "messages"),
    _integer("retroactive-message-count", "retroactiveMessageCount", 0, "messages", 0),
)

_AUTOMATIC: Final = (
    _boolean("auto-create-queues", "autoCreateQueues", True),
    _boolean("auto-delete-queues", "autoDeleteQueues", True),
    _boolean("auto-delete-created-queues", "autoDeleteCreatedQueues", False),
    _integer("auto-delete-queues-delay", "autoDeleteQueuesDelay", 0, "ms", 0),
    _integer("auto-delete-queues-message-count", "autoDeleteQueuesMessageCount", 0, "messages", -1),
    _boolean("auto-delete-queues-skip-usage-check", "autoDeleteQueuesSkipUsageCheck", False),
    _boolean("auto-create-addresses", "autoCreateAddresses", True),
    _boolean("auto-delete-addresses", "autoDeleteAddresses", True),
    _integer("auto-delete-addresses-delay", "autoDeleteAddressesDelay", 0, "ms", 0),
    _boolean("auto-delete-addresses-skip-usage-check", "autoDeleteAddressesSkipUsageCheck", False),
    _choice("config-delete-queues", "configDeleteQueues", "OFF", _DELETION),
    _choice("config-delete-addresses", "configDeleteAddresses", "OFF", _DELETION),
    _choice("config-delete-diverts", "configDeleteDiverts", "OFF", _DELETION),
    _boolean("auto-create-jms-queues", "autoCreateJmsQueues", True),
    _boolean("auto-delete-jms-queues", "autoDeleteJmsQueues", True),
    _boolean("auto-create-jms-topics", "autoCreateJmsTopics", True),
    _boolean("auto-delete-jms-topics", "autoDeleteJmsTopics", True),
)

_OTHER: Final = (
    _integer("redistribution-delay", "redistributionDelay", -1, "ms"),
    _limit("slow-consumer-threshold", "slowConsumerThreshold", -1),
    _choice(
        "slow-consumer-threshold-measurement-unit",
        "slowConsumerThresholdMeasurementUnit",
        "MESSAGES_PER_SECOND",
        _RATES,
    ),
    _integer("slow-consumer-check-period", "slowConsumerCheckPeriod", 5, "s", 1),
    _choice("slow-consumer-policy", "slowConsumerPolicy", "NOTIFY", ("KILL", "NOTIFY")),
    _integer("message-counter-history-day-limit", "messageCounterHistoryDayLimit", 0, "days"),
    _integer("management-browse-page-size", "managementBrowsePageSize", 200, "messages"),
    _integer("management-message-attribute-size-limit", "managementMessageAttributeSizeLimit", 256, "bytes"),
    _boolean("enable-metrics", "enableMetrics", True),
    _boolean("enable-ingress-timestamp", "enableIngressTimestamp", False),
    _integer("id-cache-size", "idCacheSize", 20000, "ids", 0),
    _integer("queue-prefetch", "queuePrefetch", 1000, "messages", in_xml=False),
    _integer("initial-queue-buffer-size", "initialQueueBufferSize", 8192, "references", 2, power_of_two=True),
)

_INT: Final = frozenset(
    {
        "default-consumer-window-size", "default-consumers-before-dispatch", "default-group-buckets",
        "default-max-consumers", "id-cache-size", "initial-queue-buffer-size", "management-browse-page-size",
        "management-message-attribute-size-limit", "max-delivery-attempts", "max-read-page-bytes",
        "max-read-page-messages", "message-counter-history-day-limit", "page-max-cache-size",
        "page-size-bytes", "prefetch-page-bytes", "prefetch-page-messages", "queue-prefetch",
    }
)  # fmt: skip
"""Numbers that a broker keeps in 32 bits; the others have 64."""


def _as_wide_as_kept(definition: SettingDefinition) -> SettingDefinition:
    """A broker does not start with a number that its type does not hold."""
    if definition.kind not in (Kind.BYTES, Kind.INTEGER):
        return definition
    highest = 2**31 - 1 if definition.name in _INT else 2**63 - 1
    lowest = -highest - 1 if definition.minimum is None else definition.minimum
    return replace(definition, minimum=lowest, maximum=highest)


ADDRESS_SETTINGS: Final = tuple(
    _as_wide_as_kept(definition)
    for definition in (*_FULL, *_REDELIVERY, *_EXPIRY, *_QUEUE_DEFAULTS, *_AUTOMATIC, *_OTHER)
)

BY_NAME: Final[Mapping[str, SettingDefinition]] = {item.name: item for item in ADDRESS_SETTINGS}
BY_JSON_KEY: Final[Mapping[str, SettingDefinition]] = {item.json_key: item for item in ADDRESS_SETTINGS}

NOT_INHERITED: Final = frozenset({"management-browse-page-size", "slow-consumer-threshold-measurement-unit"})
"""What a broker's set of settings always has a value for, so that it takes none from a less specific match
(`AddressSettings` in 2.44).
"""

NO_EFFECT: Final = frozenset(
    {
        "auto-create-addresses", "auto-create-jms-queues", "auto-create-jms-topics", "auto-create-queues",
        "auto-delete-jms-queues", "auto-delete-jms-topics", "config-delete-addresses",
        "config-delete-diverts", "config-delete-queues", "default-consumer-window-size",
        "default-group-first-key", "drop-messages-when-full", "enable-ingress-timestamp",
        "initial-queue-buffer-size", "management-browse-page-size", "management-message-attribute-size-limit",
        "max-read-page-bytes", "max-read-page-messages", "message-counter-history-day-limit",
        "page-max-cache-size", "prefetch-page-bytes", "prefetch-page-messages", "queue-prefetch",
        "redistribution-delay", "retroactive-message-count", "send-to-dla-on-no-route",
        "slow-consumer-check-period", "slow-consumer-policy", "slow-consumer-threshold",
        "slow-consumer-threshold-measurement-unit",
    }
)  # fmt: skip
"""Kept for brokers, and without a meaning here: docs/reference/settings.md says why."""

XML_ALIASES: Final[Mapping[str, str]] = {"last-value-queue": "default-last-value-queue"}
"""Older names that the broker still reads."""
