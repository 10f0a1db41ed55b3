from __future__ import annotations

from tests.broker.conftest import artemis_home

__all__ = ["artemis_home"]
