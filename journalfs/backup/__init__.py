"""Backups of stores: consistent, incremental, checked, in a directory or an object store."""

from journalfs.backup.backups import Backups, Made
from journalfs.backup.manifest import Manifest
from journalfs.backup.verifying import Problem

__all__ = ["Backups", "Made", "Manifest", "Problem"]
