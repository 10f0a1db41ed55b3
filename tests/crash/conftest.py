"""The small store that is killed again and again."""

from tests.store.conftest import little_store

__all__ = ["little_store"]
