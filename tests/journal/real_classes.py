"""The broker's own journal classes at work on a folder, in a process of their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from journalfs.records.files.write_settings import WriteSettings
from tests.broker.distribution import class_path, distribution_home

SOURCES = Path(__file__).parent / "java"
SETTINGS = WriteSettings(file_size_bytes=64 * 1024, compact_min_files=0, checksums=True)


def run_real_classes(
    folder: Path,
    kind: str,
    *commands: str,
    history: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Load with the real classes and carry out commands; `history` is a retention folder for them."""
    return subprocess.run(
        [
            "java",
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            "-Dlog4j2.level=off",
            f"-Djava.library.path={distribution_home()}/bin/lib/linux-x86_64",
            "-cp",
            class_path(SOURCES),
            "JournalClasses",
            str(folder),
            kind,
            str(SETTINGS.file_size_bytes),
            SETTINGS.prefix,
            SETTINGS.extension,
            *([] if history is None else [str(history)]),
        ],
        input="".join(f"{command}\n" for command in commands),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **(environment or {})},
    )


def real_classes(
    folder: Path,
    kind: str,
    *commands: str,
    history: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[str]:
    """The same, which must succeed; the lines they printed."""
    done = run_real_classes(folder, kind, *commands, history=history, environment=environment)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[-1] == "done", done.stdout + done.stderr
    return lines[:-1]
