"""The broker is that of the tests against one."""

from tests.broker.conftest import artemis_home

__all__ = ["artemis_home"]
