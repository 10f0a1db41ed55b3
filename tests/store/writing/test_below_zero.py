"""Numbers below zero in settings that brokers do not check, and what they come to."""

from __future__ import annotations

import json

import pytest

from journalfs.errors import SettingRefused
from tests.store.writing.conftest import Writable, lines_of, queue_of
from tests.store.writing.test_forwarding import configure, published

SETTINGS = (
    '[address-settings."work"]\nredelivery-delay = 1000\nredelivery-delay-multiplier = -10.0\n'
    "max-redelivery-delay = 60000\nmax-delivery-attempts = -5\nmax-size-bytes = -9\n"
    "max-size-messages = -3\nexpiry-delay = -7\n"
)


@pytest.mark.rule("S-120")
async def test_what_is_due_in_the_past_is_due_now(writable: Writable) -> None:
    configure(writable, SETTINGS)
    async with writable.open() as store:
        (message,) = await published(store, {"type": "text", "body": "one"})
        rules = store.deliveries.rules
        waits_ms = [rules.redelivery_delay_ms("work", attempts) for attempts in (1, 2, 3, 306, 307, 308)]
        assert waits_ms == [1000, 0, 60_000, 0, 60_000, 0]
        assert "expiration" not in json.loads(lines_of(store, "work.a")[0]), "it never expires"
        await store.set_message_attribute(("work", "work.a"), message, "user.journalfs.deliveryCount", b"307")
        delivery = store.consumer(("work", "work.a")).take()
        assert delivery is not None
        await delivery.give_back(failed=True)
        assert len(queue_of(store, "work.a")) == 1, "it has as many attempts as it needs"
        assert not store.core.in_delivery.delayed(queue_of(store, "work.a").content.queue_id)
        await store.set_attribute("work", None, "user.journalfs.redelivery-delay", b"-1")
        assert rules.redelivery_delay_ms("work", 1) == 0


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("redelivery-collision-avoidance-factor", b"1.5", "1.5 is above 1"),
        ("page-limit-messages", b"0", "0 would be none at all; -1 is no limit"),
        ("slow-consumer-threshold", b"0", "0 would be none at all; -1 is no limit"),
        ("initial-queue-buffer-size", b"1000", "1000 is no power of two"),
    ],
)
async def test_what_a_broker_does_not_start_with_is_refused(
    writable: Writable, name: str, value: bytes, reason: str
) -> None:
    async with writable.open() as store:
        with pytest.raises(SettingRefused, match=f"{name}: {reason}"):
            await store.set_attribute("work", None, f"user.journalfs.{name}", value)
