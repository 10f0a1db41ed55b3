"""Stores that a stranger wrote."""

from tests.store.conftest import little_store

__all__ = ["little_store"]
