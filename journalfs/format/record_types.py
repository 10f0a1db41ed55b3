"""Names of record kinds and of the user record types in them (docs/format/records.md, bindings.md)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, unique
from typing import Final


@unique
class RecordKind(IntEnum):
    """First byte of a journal record."""

    EVENT = 10
    ADD = 11
    UPDATE = 12
    ADD_TX = 13
    UPDATE_TX = 14
    DELETE_TX = 15
    DELETE = 16
    PREPARE = 17
    COMMIT = 18
    ROLLBACK = 19


@unique
class BindingType(IntEnum):
    """User record types of the bindings journal."""

    GROUP = 20
    QUEUE_BINDING = 21
    QUEUE_STATUS = 22
    ID_COUNTER = 24
    ADDRESS_SETTING = 25
    SECURITY_SETTING = 26
    DIVERT = 27
    BRIDGE = 28
    ADDRESS_BINDING = 44
    ADDRESS_STATUS = 46
    USER = 47
    ROLE = 48
    KEY_VALUE_PAIR = 50
    CONNECTOR = 51
    ADDRESS_SETTING_JSON = 52


@unique
class MessageType(IntEnum):
    """User record types of the message journal."""

    LARGE_MESSAGE_PENDING = 29
    LARGE_MESSAGE = 30
    LEGACY_MESSAGE = 31
    ADD_REFERENCE = 32
    ACKNOWLEDGE_REFERENCE = 33
    DELIVERY_COUNT = 34
    PAGE_TRANSACTION = 35
    SCHEDULED_TIME = 36
    DUPLICATE_ID = 37
    HEURISTIC_COMPLETION = 38
    ACKNOWLEDGE_CURSOR = 39
    PAGE_COUNTER_VALUE = 40
    PAGE_COUNTER_INCREMENT = 41
    PAGE_COMPLETE = 42
    PAGE_COUNTER_PENDING = 43
    MESSAGE = 45
    LARGE_MESSAGE_BODY = 49
    ACKNOWLEDGE_RETRY = 53
    MQTT_PACKET_ID = 54


USER_TYPE_NAMES: Final[Mapping[int, str]] = {
    int(member): member.name.lower().replace("_", "-")
    for kind in (BindingType, MessageType)
    for member in kind
}
"""User record type -> a stable lower-case name. The two journals share one number space."""


def user_type_name(user_type: int) -> str:
    """`queue-binding`, `message`, ...; an unknown type gives `unknown-<number>`."""
    return USER_TYPE_NAMES.get(user_type, f"unknown-{user_type}")
