"""A queue's own settings by their names in broker.xml: which there are, and what values they take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from journalfs.errors import JournalfsError, SettingRefused
from journalfs.format.bindings import QueueBinding, RoutingType
from journalfs.selector import compile_selector
from journalfs.store.settings import PAUSED


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("is neither true nor false")
    return text == "true"


def _integer(minimum: int, maximum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text)
        if not minimum <= number <= maximum:
            raise ValueError(f"must be from {minimum} to {maximum}")
        return number

    return parse


def _text(text: str) -> str | None:
    return text or None


def _filter(text: str) -> str | None:
    if text:
        compile_selector(text, stored=True)
    return text or None


def names_of_clients(text: str | None) -> Mapping[str, str]:
    """Names in a queue's filter that are headers in a client's selector alone, with those that are for a
    broker: it takes them for properties there, and a client that makes a queue has translated them.
    """
    return compile_selector(text, stored=True).client_names if text else {}


def _routing_type(text: str) -> RoutingType:
    try:
        return RoutingType[text.upper()]
    except KeyError:
        raise ValueError("is neither MULTICAST nor ANYCAST") from None


_I32: Final = 2**31 - 1
_I64: Final = 2**63 - 1

QUEUE_SETTINGS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "routing-type": ("routing_type", _routing_type),
    "filter": ("filter", _filter),
    "max-consumers": ("max_consumers", _integer(-1, _I32)),
    "purge-on-no-consumers": ("purge_on_no_consumers", _boolean),
    "exclusive": ("exclusive", _boolean),
    "last-value": ("last_value", _boolean),
    "last-value-key": ("last_value_key", _text),
    "non-destructive": ("non_destructive", _boolean),
    "consumers-before-dispatch": ("consumers_before_dispatch", _integer(0, _I32)),
    "delay-before-dispatch": ("delay_before_dispatch_ms", _integer(-1, _I64)),
    "group-rebalance": ("group_rebalance", _boolean),
    "group-rebalance-pause-dispatch": ("group_rebalance_pause_dispatch", _boolean),
    "group-buckets": ("group_buckets", _integer(-1, _I32)),
    "group-first-key": ("group_first_key", _text),
    "ring-size": ("ring_size", _integer(-1, _I64)),
    "enabled": ("enabled", _boolean),
    "auto-delete": ("auto_delete", _boolean),
    "auto-delete-delay": ("auto_delete_delay_ms", _integer(0, _I64)),
    "auto-delete-message-count": ("auto_delete_message_count", _integer(-1, _I64)),
}
"""Name -> field of the binding, and what reads its value."""

QUEUE_NO_EFFECT: Final = frozenset({"group-first-key"})
"""Kept for brokers, and without a meaning here."""

KEPT_BY_BROKERS: Final = frozenset(
    {PAUSED, "last-value", "last-value-key", "auto-delete", "auto-delete-delay", "auto-delete-message-count"}
)
"""What a broker that starts leaves as it is of a queue that its configuration lists. All others it sets as
they are there.
"""


def changed(binding: QueueBinding, name: str, text: str) -> QueueBinding:
    """The binding with one setting changed. Raises `SettingRefused`."""
    known = QUEUE_SETTINGS.get(name)
    if known is None:
        names = ", ".join(sorted(QUEUE_SETTINGS))
        raise SettingRefused(name, f"no setting of a queue that can be changed; there are paused, {names}")
    field, parse = known
    try:
        value = parse(text)
    except JournalfsError as error:
        raise SettingRefused(name, str(error)) from error
    except ValueError as error:
        raise SettingRefused(name, f"{text!r} {_reason(error)}") from None
    settings: dict[str, object] = {field: value}
    return replace(binding, **settings)  # type: ignore[arg-type]


def check_default(name: str, text: str) -> None:
    """A `default-` setting of an address, which new queues get, takes what the queue's own does. Raises
    `SettingRefused`.
    """
    known = QUEUE_SETTINGS.get(name.removeprefix("default-")) if name.startswith("default-") else None
    if known is not None:
        try:
            known[1](text)
        except ValueError as error:
            raise SettingRefused(name, f"{text!r} {_reason(error)}") from None


def _reason(error: ValueError) -> str:
    return "is no whole number" if str(error).startswith("invalid literal") else str(error)
