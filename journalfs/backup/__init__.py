"""Backups of stores: consistent, incremental, checked, in a directory or an object store."""

from journalfs.backup.backups import Backups, Made, Problem
from journalfs.backup.manifest import Manifest

__all__ = ["Backups", "Made", "Manifest", "Problem"]
