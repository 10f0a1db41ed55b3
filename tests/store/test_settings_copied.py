"""`.journalfs/settings.toml` as the journalfs.toml of its store: all stays as it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.clock import FakeClock
from journalfs.config.core_settings import CORE_SETTINGS
from journalfs.config.journal_settings import journal_settings
from journalfs.config.layout import DIRECTORY_FIELDS, StoreLayout, locate_store
from journalfs.engine.backend import BackendKind
from journalfs.live.settings import broker_toml
from journalfs.store import open_store
from journalfs.store.creating import create_store
from journalfs.store.journal_setup import as_found, message_journal
from tests.config.test_broker_xml import document
from tests.store.conftest import LittleStore

BLOCK = '[address-settings."wo.#"]\naddress-full-policy = "BLOCK"\n'


def bare(little: LittleStore) -> Path:
    """Its files have another size than the one that is usual."""
    return little.root


def configured(little: LittleStore) -> Path:
    (little.root / "journalfs.toml").write_text('journal-type = "NIO"\n' + BLOCK)
    return little.root


def moved(little: LittleStore) -> Path:
    """One directory is elsewhere in the data directory, one outside of it."""
    (little.root / "paging").rename(little.root / "p")
    outside = little.root.parent / "outside"
    (little.root / "large-messages").rename(outside)
    (little.root / "journalfs.toml").write_text(
        f'paging-directory = "p"\nlarge-messages-directory = "{outside}"\n'
        'node-manager-lock-directory = "locks"\n'
    )
    return little.root


def created(little: LittleStore) -> Path:
    root = little.root.parent / "created"
    create_store(root, {"journal-type": "NIO", "journal-file-size": 4096}, FakeClock(), warn=pytest.fail)
    return root


def lone_journal(little: LittleStore) -> Path:
    shutil.rmtree(little.root / "bindings")
    return (little.root / "journal").rename(little.root.parent / "lone")


def instance(little: LittleStore, core: str = "") -> Path:
    etc = little.root.parent / "etc"
    etc.mkdir()
    (etc / "broker.xml").write_text(document(f"<journal-type>NIO</journal-type>{core}"))
    return little.root.parent


def with_retention(little: LittleStore) -> Path:
    return instance(
        little,
        '<journal-retention-directory unit="DAYS" period="7">data/history</journal-retention-directory>'
        '<address-settings><address-setting match="#"><max-size-bytes>9</max-size-bytes></address-setting>'
        "</address-settings>",
    )


def from_elsewhere(little: LittleStore) -> Path:
    """Its configuration has directories of the machine that it was on."""
    return instance(
        little,
        "<journal-directory>/there/journal</journal-directory>"
        "<bindings-directory>/there/bindings</bindings-directory>"
        '<journal-retention-directory unit="DAYS" period="7">/there/history</journal-retention-directory>',
    )


KINDS = (bare, configured, moved, created, lone_journal, instance, with_retention, from_elsewhere)


def in_force(layout: StoreLayout) -> dict[str, object]:
    settings = journal_settings(layout.config)
    matches = layout.config.address_settings if layout.config is not None else ()
    return {
        **{field: getattr(layout, field) for field in DIRECTORY_FIELDS.values()},
        **{item.name: layout.value_in_force(item.name) for item in CORE_SETTINGS}
        # These are the fields above, and may be said in more than one way.
        | dict.fromkeys(DIRECTORY_FIELDS),
        "retention": settings.retention_directory is not None,
        "written": as_found(layout, message_journal(layout, settings, BackendKind.NIO)),
        "addresses": {
            one.match: {name: found.value for name, found in one.values.items()} for one in matches
        },
    }


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_is_shown_may_be_put_into_the_store(
    little_store: LittleStore, kind: Callable[[LittleStore], Path]
) -> None:
    place = kind(little_store)
    before = locate_store(place)
    for _ in range(2):
        store = open_store(place, clock=little_store.clock, index=False)
        shown = broker_toml(store.core)
        store.close()
        (before.root / "journalfs.toml").write_text(shown)
        after = locate_store(place)
        assert in_force(after) == in_force(before)
        assert after.warnings == before.warnings


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_is_shown_are_the_directories_that_are_used(
    little_store: LittleStore, kind: Callable[[LittleStore], Path]
) -> None:
    place = kind(little_store)
    store = open_store(place, clock=little_store.clock, index=False)
    shown = broker_toml(store.core).splitlines()
    store.close()
    # What broker.xml does not say is where a broker has it.
    origin = "default" if kind in (instance, with_retention) else "found"
    journal = "." if kind is lone_journal else "journal"
    assert f'journal-directory = "{journal}"  # {origin}' in shown
    if kind is moved:
        outside = little_store.root.parent / "outside"
        assert 'paging-directory = "p"  # journalfs.toml' in shown
        assert f'large-messages-directory = "{outside}"  # journalfs.toml' in shown
        assert 'node-manager-lock-directory = "locks"  # journalfs.toml' in shown
    if kind is with_retention:
        assert 'journal-retention-directory = "history"  # broker.xml' in shown
    if kind is from_elsewhere:
        assert 'journal-retention-directory = "retention"  # found' in shown
