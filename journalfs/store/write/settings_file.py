"""An edited `.settings` file: what of it differs from what is in force."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Final

from journalfs.config.toml_text import NoToml, load_toml
from journalfs.errors import SettingRefused
from journalfs.store.core import Core
from journalfs.store.settings import PAUSED, queue_settings, settings_in_force
from journalfs.store.write.administering import address_named, planned_address, planned_queue, queue_named

Changes = dict[str, str]

_OF_ADDRESS: Final = "address"
"""The only table that there is, in the file of a queue."""


def checked_settings(core: Core, address: str, queue: str | None, text: bytes) -> tuple[Changes, Changes]:
    """What `changed_settings` finds, when all of it can be set. Raises `SettingRefused` and `NoSuchName`."""
    own, of_address = changed_settings(core, address, queue, text)
    address_model = address_named(core.bindings, address)
    if queue is None:
        planned_address(address_model, own)
    else:
        planned_queue(queue_named(core.bindings, address, queue), own)
        planned_address(address_model, of_address)
    return own, of_address


def changed_settings(core: Core, address: str, queue: str | None, text: bytes) -> tuple[Changes, Changes]:
    """Changes of the queue or address itself, and for a queue those of its address, by name.

    Raises `SettingRefused` for text that is no TOML, and for what is neither text, number nor boolean.
    """
    try:
        edited = load_toml(text)
    except NoToml as error:
        raise SettingRefused(".settings", f"no TOML: {error}") from None
    address_model = address_named(core.bindings, address)
    in_force: Mapping[str, object] = {
        setting.name: setting.value for setting in settings_in_force(core).address(address)
    }
    in_force = {PAUSED: address_model.paused, **in_force}
    if queue is None:
        return _differing(edited, in_force), {}
    of_address = edited.pop(_OF_ADDRESS, {})
    if not isinstance(of_address, dict):
        raise SettingRefused(_OF_ADDRESS, "is no table of settings")
    model = queue_named(core.bindings, address, queue)
    own = _differing(edited, queue_settings(model), tables=(_OF_ADDRESS,))
    return own, _differing(of_address, in_force, within=f"{_OF_ADDRESS}.")


def _differing(
    edited: Mapping[str, object],
    in_force: Mapping[str, object],
    *,
    tables: Collection[str] = (),
    within: str = "",
) -> Changes:
    """What is given otherwise, in a file that may have `tables`, or in the table that `within` names."""
    changes: Changes = {}
    for name, value in edited.items():
        if isinstance(value, dict):
            near = difflib.get_close_matches(name, tables, n=1)
            meant = f"; did you mean [{near[0]}]?" if near else ""
            raise SettingRefused(within + name, f"there is no table [{within}{name}] here{meant}")
        if not isinstance(value, bool | int | float | str):
            raise SettingRefused(name, "is neither text, number nor boolean")
        if in_force.get(name) != value:
            changes[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return changes
