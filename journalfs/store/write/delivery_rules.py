"""What decides about deliveries: headers of a message, and settings of its address and of the broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from journalfs.limits import WHOLE_LINE_BYTES_MAX
from journalfs.store.api import ByteSource
from journalfs.store.core import Core
from journalfs.store.envelope import envelope_decoder
from journalfs.store.write.address_rules import AddressRules

_NEVER_BELOW_MS: Final = -(2**63) + 2**46
"""Such an expiration wraps around where a broker subtracts it from now, as it does of clients that add the
longest time to live to now.
"""
_HEAD: Final = envelope_decoder(frozenset(("expiration", "groupId")))
_PROPERTIES: Final = envelope_decoder(frozenset(("properties",)))
_AFTER_HEAD: Final = (b',"properties":', b',"body', b',"amqp":', b',"damage":', b',"message_base64":')
DELAY_MS_MAX: Final = 2.0**62
"""Whatever a delay has grown to: far more is no number any more."""
_SEQUENCE: Final = b'"_AMQ_GROUP_SEQUENCE":'


@dataclass(frozen=True, slots=True)
class Headers:
    """What of a message says who gets it."""

    expiration: int = 0
    """Milliseconds since 1970; 0: never."""
    group: str = ""
    group_sequence: int = 0
    """-1 ends the group."""

    def is_over(self, now_ms: int) -> bool:
        if self.expiration < 0:
            return self.expiration > _NEVER_BELOW_MS
        return 0 < self.expiration <= now_ms


def headers_of(line: ByteSource) -> Headers:
    """From an envelope line: its headers come before its properties and its body, which may be long."""
    text = bytes(line.read(0, min(line.size_bytes, WHOLE_LINE_BYTES_MAX)))
    ends = [at for at in (text.find(key) for key in _AFTER_HEAD) if at > 0]
    if not ends and line.size_bytes > len(text):
        return Headers()
    head = _HEAD(text[: min(ends)] + b"}" if ends else text)
    expiration, group = head.get("expiration", 0), head.get("groupId", "")
    sequence = 0
    if group and _SEQUENCE in text and line.size_bytes == len(text):
        properties = _PROPERTIES(text).get("properties")
        found = properties.get("_AMQ_GROUP_SEQUENCE") if isinstance(properties, dict) else None
        sequence = found if isinstance(found, int) else 0
    return Headers(
        expiration if isinstance(expiration, int) else 0, group if isinstance(group, str) else "", sequence
    )


@dataclass(slots=True)
class DeliveryRules:
    core: Core
    addresses: AddressRules
    random: Random = field(default_factory=Random)

    def is_last_attempt(self, address: str, count: int) -> bool:
        """`max-delivery-attempts`; none or a negative number is no limit."""
        most = self.addresses.number(address, "max-delivery-attempts")
        return 0 < most <= count

    def redelivery_delay_ms(self, address: str, count: int) -> int:
        """How long a message waits after its attempt number `count` failed."""
        delay_ms = self.addresses.number(address, "redelivery-delay")
        if delay_ms <= 0:
            return 0
        longest_ms = self.addresses.number(address, "max-redelivery-delay")
        try:
            grown = self._decimal(address, "redelivery-delay-multiplier", 1.0) ** max(count - 1, 0)
        except OverflowError:
            return longest_ms
        # A broker takes a negative multiplier, too; what is due in the past is due now.
        waits = int(max(0.0, min(delay_ms * grown, DELAY_MS_MAX)))
        spread = self._decimal(address, "redelivery-collision-avoidance-factor", 0.0)
        if spread > 0:
            waits += int(waits * self.random.uniform(-spread, spread))
        return min(waits, longest_ms)

    def is_recorded(self, count: int) -> bool:
        """`max-redelivery-records`: so many attempts are recorded of one message; -1: all."""
        most = self.core.layout.value_in_force("max-redelivery-records")
        return not isinstance(most, int) or most < 0 or count <= most

    def counts_before(self) -> bool:
        return bool(self.core.layout.value_in_force("persist-delivery-count-before-delivery"))

    def _decimal(self, address: str, name: str, otherwise: float) -> float:
        value = self.addresses.value(address, name)
        return float(value) if isinstance(value, int | float) else otherwise
