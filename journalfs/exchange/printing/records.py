"""Bodies of records as the broker prints them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from journalfs.exchange.printing import java
from journalfs.exchange.printing.messages import describe_large, describe_message, message_text, safe_text
from journalfs.format import address_settings, bindings
from journalfs.format.primitives import Reader, broker_uuid
from journalfs.format.record_types import BindingType, MessageType
from journalfs.format.xid import Xid, read_xid

# Address settings as the broker prints them.

_NAMES: Final = [
    "addressFullMessagePolicy", "maxSizeBytes", "maxReadPageBytes", "maxReadPageMessages",
    "prefetchPageBytes", "prefetchPageMessages", "pageLimitBytes", "pageLimitMessages",
    "pageFullMessagePolicy", "maxSizeMessages", "pageSizeBytes", "pageMaxCache", "dropMessagesWhenFull",
    "maxDeliveryAttempts", "messageCounterHistoryDayLimit", "redeliveryDelay", "redeliveryMultiplier",
    "redeliveryCollisionAvoidanceFactor", "maxRedeliveryDelay", "deadLetterAddress", "expiryAddress",
    "expiryDelay", "minExpiryDelay", "maxExpiryDelay", "noExpiry", "defaultLastValueQueue",
    "defaultLastValueKey", "defaultNonDestructive", "defaultExclusiveQueue", "defaultGroupRebalance",
    "defaultGroupRebalancePauseDispatch", "defaultGroupBuckets", "defaultGroupFirstKey",
    "redistributionDelay", "sendToDLAOnNoRoute", "slowConsumerThreshold",
    "slowConsumerThresholdMeasurementUnit", "slowConsumerCheckPeriod", "slowConsumerPolicy",
    "autoCreateJmsQueues", "autoDeleteJmsQueues", "autoCreateJmsTopics", "autoDeleteJmsTopics",
    "autoCreateQueues", "autoDeleteQueues", "autoDeleteCreatedQueues", "autoDeleteQueuesDelay",
    "autoDeleteQueuesSkipUsageCheck", "autoDeleteQueuesMessageCount", "defaultRingSize",
    "retroactiveMessageCount", "configDeleteQueues", "autoCreateAddresses", "autoDeleteAddresses",
    "autoDeleteAddressesDelay", "autoDeleteAddressesSkipUsageCheck", "configDeleteAddresses",
    "configDeleteDiverts", "managementBrowsePageSize", "maxSizeBytesRejectThreshold", "defaultMaxConsumers",
    "defaultPurgeOnNoConsumers", "defaultConsumersBeforeDispatch", "defaultDelayBeforeDispatch",
    "defaultQueueRoutingType", "defaultAddressRoutingType", "defaultConsumerWindowSize",
    "autoCreateDeadLetterResources", "deadLetterQueuePrefix", "deadLetterQueueSuffix",
    "autoCreateExpiryResources", "expiryQueuePrefix", "expiryQueueSuffix", "enableMetrics",
    "managementMessageAttributeSizeLimit", "enableIngressTimestamp", "idCacheSize", "queuePrefetch",
    "initialQueueBufferSize",
]  # fmt: skip
_KEYS: Final = {"pageMaxCache": "pageCacheMaxSize"}
"""Of those that are printed under another name."""
_UNLESS_SAID: Final = {
    "slowConsumerThresholdMeasurementUnit": "MESSAGES_PER_SECOND",
    "managementBrowsePageSize": "200",
}


def settings_text(values: Mapping[str, address_settings.SettingValue]) -> str:
    """`values` by the names of the JSON form."""
    shown = ", ".join(f"{name}={_value(name, values.get(_KEYS.get(name, name)))}" for name in _NAMES)
    return f"AddressSettings{{{shown}}}"


def _value(name: str, value: address_settings.SettingValue | None) -> str:
    if value is None:
        return _UNLESS_SAID.get(name, "null")
    return java.number(value) if isinstance(value, float) else java.or_null(value)


NOTHING: Final = "** null **"
"""For a record whose type the tool does not print."""

_BRIDGE: Final = "BRIDGE"
_BRIDGE_ID_BYTES: Final = 24
_ACK_REASONS: Final = ("NORMAL", "KILLED", "EXPIRED", "REPLACED")
_STATUS: Final = {True: "PAUSED", False: "RUNNING"}


def body_text(user_type: int, record_id: int, body: bytes, *, update: bool, safe: bool) -> str:
    """Without what users wrote if `safe`. Raises `DecodeError`."""
    if user_type in (MessageType.MESSAGE, MessageType.LARGE_MESSAGE):
        one = describe_message(body) if user_type == MessageType.MESSAGE else describe_large(body)
        return safe_text(one) if safe else message_text(one)
    if safe and user_type in _UNSAFE:
        return f"{_UNSAFE[user_type]}(safe data)"
    if user_type == MessageType.PAGE_TRANSACTION and update:
        reader = Reader(body)
        return f"PageUpdateTXEncoding [pageTX={reader.i64()}, records={reader.i32()}]"
    text = _TEXTS.get(user_type)
    return NOTHING if text is None else text(Reader(body), record_id)


_UNSAFE: Final = {
    int(BindingType.ADDRESS_BINDING): "PersistentAddressBindingEncoding",
    int(BindingType.QUEUE_BINDING): "PersistentQueueBindingEncoding",
}


def xid_text(xid: Xid) -> str:
    """It has no closing bracket."""
    return (
        f"XidImpl ({java.NO_IDENTITY} bq:{_signed(xid.branch_qualifier)} formatID:{xid.format_id} "
        f"gtxid:{_signed(xid.global_transaction_id)} base64:{xid.base64()}"
    )


def _signed(data: bytes) -> str:
    return ".".join(str(byte - 256 if byte > 127 else byte) for byte in data)


def _group(reader: Reader, record_id: int) -> str:
    found = bindings.decode_group(reader.rest())
    return f"GroupingEncoding [id={record_id}, groupId={found.group_id}, clusterName={found.cluster}]"


def _queue_binding(reader: Reader, record_id: int) -> str:
    one = bindings.decode_queue_binding(reader.rest())
    fields = {
        "id": record_id,
        "name": one.name,
        "address": one.address,
        "routingType": one.routing_type.name,
        "filterString": one.filter,
        "durable": None,
        "user": one.user,
        "maxConsumers": one.max_consumers,
        "exclusive": one.exclusive,
        "groupRebalance": one.group_rebalance,
        "groupRebalancePauseDispatch": one.group_rebalance_pause_dispatch,
        "groupBuckets": one.group_buckets,
        "groupFirstKey": one.group_first_key,
        "lastValue": one.last_value,
        "lastValueKey": one.last_value_key,
        "nonDestructive": one.non_destructive,
        "purgeOnNoConsumers": one.purge_on_no_consumers,
        "enabled": one.enabled,
        "consumersBeforeDispatch": one.consumers_before_dispatch,
        "delayBeforeDispatch": one.delay_before_dispatch_ms,
        "consumerPriority": None,
        "autoDelete": one.auto_delete,
        "autoDeleteDelay": one.auto_delete_delay_ms,
        "autoDeleteMessageCount": one.auto_delete_message_count,
        "ringSize": one.ring_size,
        "configurationManaged": one.configuration_managed,
        "temporary": None,
        "autoCreateAddress": None,
        "internal": one.internal,
        "transient": None,
        "autoCreated": one.auto_created,
        "fqqn": None,
    }
    shown = ", ".join(f"{name}={java.or_null(value)}" for name, value in fields.items())
    return f"PersistentQueueBindingEncoding [queueConfiguration=QueueConfiguration [{shown}]]"


def _address_binding(reader: Reader, record_id: int) -> str:
    one = bindings.decode_address_binding(reader.rest())
    routing = ",".join(kind.name for kind in sorted(set(one.routing_types), key=lambda kind: kind.value))
    return (
        f"PersistentAddressBindingEncoding [id={record_id}, name={one.name}, routingTypes={{{routing}}}, "
        f"autoCreated={java.truth(one.auto_created)}, internal={java.truth(one.internal)}]"
    )


def _queue_status(reader: Reader, record_id: int) -> str:
    one = bindings.decode_queue_status(reader.rest())
    return f"QueueStatusEncoding [id={record_id}, queueID={one.target}, status={_STATUS[one.paused]}]"


def _address_status(reader: Reader, _record_id: int) -> str:
    one = bindings.decode_address_status(reader.rest())
    return f"AddressStatusEncoding{{status={_STATUS[one.paused]}, id={one.target}}}"


def _json_setting(reader: Reader, record_id: int) -> str:
    one = address_settings.decode_address_setting_json(reader.rest())
    return (
        f"PersistedAddressSettingJSON{{jsonSetting={one.text}, storeId={record_id}, "
        f"addressMatch={one.match}, setting={settings_text(one.values)}}}"
    )


def _setting(reader: Reader, record_id: int) -> str:
    one = address_settings.decode_address_setting(reader.rest())
    return (
        f"PersistedAddressSetting [storeId={record_id}, addressMatch={one.match}, "
        f"setting={settings_text(one.values)}]"
    )


def _security(reader: Reader, record_id: int) -> str:
    match = reader.simple_string()
    roles = [
        reader.nullable_simple_string() if reader.remaining_bytes else None for _ in bindings.PERMISSIONS
    ]
    shown = ", ".join(
        f"{name}Roles={java.or_null(one)}" for name, one in zip(bindings.PERMISSIONS, roles, strict=True)
    )
    return f"PersistedSecuritySetting [storeId={record_id}, addressMatch={match}, {shown}]"


def _divert(reader: Reader, _record_id: int) -> str:
    one = bindings.decode_divert(reader.rest())
    fields = {
        "name": one.name,
        "routingName": one.routing_name,
        "address": one.address,
        "forwardingAddress": one.forwarding_address,
        "exclusive": one.exclusive,
        "filterString": one.filter,
        "routing-type": one.routing_type.name,
        "transformerConfiguration": one.transformer and _transformer(one.transformer),
    }
    shown = ", ".join(f"{name}={java.or_null(value)}" for name, value in fields.items())
    return f"PersistedDivertConfiguration{{storeId=0, divertConfiguration=DivertConfiguration [{shown}]}}"


def _transformer(one: bindings.Transformer) -> str:
    pairs = ", ".join(f"{java.or_null(key)}={java.or_null(value)}" for key, value in one.properties.items())
    return f"TransformerConfiguration [className={one.class_name}, properties={{{pairs}}}]"


def _bridge(_reader: Reader, _record_id: int) -> str:
    """The tool prints nothing of it."""
    bridge = f"org.apache.activemq.artemis.core.config.BridgeConfiguration@{java.NO_IDENTITY}"
    return f"PersistedBridgeConfiguration{{storeId=0, bridgeConfiguration={bridge}}}"


def _user(reader: Reader, record_id: int) -> str:
    name = bindings.decode_user(reader.rest()).name
    return f"PersistedUser [storeId={record_id}, username={name}, password=****]"


def _roles(reader: Reader, record_id: int) -> str:
    one = bindings.decode_roles(reader.rest())
    return f"PersistedRole [storeId={record_id}, username={one.user}, roles [{', '.join(one.roles)}]]"


def _duplicate_id(reader: Reader, _record_id: int) -> str:
    address, duplicate = reader.simple_string(), reader.byte_array()
    shown = java.grouped_hex(duplicate)
    if address.startswith(_BRIDGE) and len(duplicate) == _BRIDGE_ID_BYTES:
        message_id = int.from_bytes(duplicate[16:], signed=True)
        shown += f" / nodeUUID={broker_uuid(duplicate[:16])} messageID={message_id}"
    return f"DuplicateIDEncoding [address={address}, duplID={shown}]"


def _heuristic(reader: Reader, _record_id: int) -> str:
    xid = xid_text(read_xid(reader))
    return f"HeuristicCompletionEncoding [xid={xid}, isCommit={java.truth(reader.boolean())}]"


def _position(name: str) -> Callable[[Reader, int], str]:
    def text(reader: Reader, _record_id: int) -> str:
        queue, page, message = reader.i64(), reader.i64(), reader.i32()
        position = f"PagePositionImpl [pageNr={page}, messageNr={message}, recordID=-1]"
        return f"{name} [queueID={queue}, position={position}]"

    return text


def _page_transaction(reader: Reader, record_id: int) -> str:
    transaction, messages = reader.i64(), reader.i32()
    return f"PageTransactionInfoImpl(transactionID={transaction},id={record_id},numberOfMessages={messages})"


def _counter(name: str) -> Callable[[Reader, int], str]:
    def text(reader: Reader, _record_id: int) -> str:
        queue, value, size_bytes = read_counter(reader, increment=name == _INCREMENT)
        return f"{name} [queueID={queue}, value={value}, persistentSize={size_bytes}]"

    return text


_INCREMENT: Final = "PageCountRecordInc"


def read_counter(reader: Reader, *, increment: bool) -> tuple[int, int, int]:
    """Queue, messages, and their bytes, which records of older brokers lack. Raises `DecodeError`."""
    queue, value = reader.i64(), reader.i32() if increment else reader.i64()
    return queue, value, reader.i64() if reader.remaining_bytes else 0


def _retry(reader: Reader, _record_id: int) -> str:
    reader.raw(8 + 1 + 8)
    node_id = reader.byte_array().decode("ascii", "replace") or None
    message_id, reason = reader.i64(), reader.i8()
    named = _ACK_REASONS[reason] if 0 <= reason < len(_ACK_REASONS) else _ACK_REASONS[0]
    return (
        f"AckRetry{{nodeID='{java.or_null(node_id)}', messageID={message_id}, reason={named}, "
        "pageAttempts=0, queueAttempts=0, viewCount=0}"
    )


_TEXTS: Final[dict[int, Callable[[Reader, int], str]]] = {
    BindingType.GROUP: _group,
    BindingType.QUEUE_BINDING: _queue_binding,
    BindingType.QUEUE_STATUS: _queue_status,
    BindingType.ID_COUNTER: lambda reader, _: f"IDCounterEncoding [id={reader.i64()}]",
    BindingType.ADDRESS_SETTING: _setting,
    BindingType.ADDRESS_SETTING_JSON: _json_setting,
    BindingType.SECURITY_SETTING: _security,
    BindingType.DIVERT: _divert,
    BindingType.BRIDGE: _bridge,
    BindingType.ADDRESS_BINDING: _address_binding,
    BindingType.ADDRESS_STATUS: _address_status,
    BindingType.USER: _user,
    BindingType.ROLE: _roles,
    MessageType.LARGE_MESSAGE_PENDING: lambda reader, _: (
        f"PendingLargeMessageEncoding::MessageID={reader.i64()}"
    ),
    MessageType.LEGACY_MESSAGE: lambda _, __: "ADD-MESSAGE is not supported any longer, use export/import",
    MessageType.ADD_REFERENCE: lambda reader, _: f"AddRef;QueueEncoding [queueID={reader.i64()}]",
    MessageType.ACKNOWLEDGE_REFERENCE: lambda reader, _: f"ACK;QueueEncoding [queueID={reader.i64()}]",
    MessageType.DELIVERY_COUNT: lambda reader, _: (
        f"DeliveryCountUpdateEncoding [queueID={reader.i64()}, count={reader.i32()}]"
    ),
    MessageType.PAGE_TRANSACTION: _page_transaction,
    MessageType.SCHEDULED_TIME: lambda reader, _: _scheduled(reader.i64(), reader.i64()),
    MessageType.DUPLICATE_ID: _duplicate_id,
    MessageType.HEURISTIC_COMPLETION: _heuristic,
    MessageType.ACKNOWLEDGE_CURSOR: _position("CursorAckRecordEncoding"),
    MessageType.PAGE_COUNTER_VALUE: _counter("PageCountRecord"),
    MessageType.PAGE_COMPLETE: _position("PGComplete"),
    MessageType.PAGE_COUNTER_INCREMENT: _counter(_INCREMENT),
    MessageType.PAGE_COUNTER_PENDING: lambda reader, _: (
        f"PageCountPendingImpl [queueID={reader.i64()}, pageID={reader.i64()}]"
    ),
    MessageType.ACKNOWLEDGE_RETRY: _retry,
}


def _scheduled(queue: int, time_ms: int) -> str:
    return f"ScheduledDeliveryEncoding [scheduledDeliveryTime={time_ms}, queueID={queue}]"
