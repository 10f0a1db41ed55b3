"""What `journalfs --version` says. Reads directory names only: asking the packages takes longer than the
answer."""

from __future__ import annotations

import os
import sys


def version_line() -> str:
    """One line: our version, then those of what decides how the mount behaves."""
    versions = _installed()
    python = ".".join(map(str, sys.version_info[:3]))
    parts = [f"Python {python}"]
    parts += [f"{name} {versions[name]}" for name in ("pyfuse3", "trio") if name in versions]
    parts.append(f"Linux {os.uname().release}")
    return f"journalfs {versions.get('journalfs', '(not installed)')} ({', '.join(parts)})"


def _installed() -> dict[str, str]:
    """Distribution name -> version, from the names of the metadata directories on the import path."""
    found: dict[str, str] = {}
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            continue  # the import path may name what does not exist, or an archive
        for name in names:
            if name.endswith(".dist-info"):
                distribution, _, version = name.removesuffix(".dist-info").partition("-")
                found.setdefault(distribution.lower(), version)
    return found
