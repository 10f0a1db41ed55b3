"""Makes a new store of another one, whatever its kind is: `convert`, `recover`, `repair`."""

from journalfs.convert.carrying import Carrying, Mode
from journalfs.convert.report import Report

__all__ = ["Carrying", "Mode", "Report"]
