"""What the tests read without Spark, to compare with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def queue_directories(mountpoint: Path) -> list[Path]:
    """Every queue of a mount, by what a directory listing shows."""
    return sorted(
        queue
        for address in mountpoint.iterdir()
        if address.is_dir()
        for queue in address.iterdir()
        if queue.is_dir()
    )


def part_lines(queue: Path) -> list[str]:
    """The lines of a queue's parts. Only a line feed ends a line: bodies may hold other separators."""
    text = "".join(part.read_bytes().decode() for part in sorted(queue.glob("part-*.jsonl")))
    return text.split("\n")[:-1]


def envelopes(queue: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, part_lines(queue))


def literal(path: Path) -> str:
    """A path for Spark that means just that path: Spark reads `[ ] { } * ? \\` in paths as patterns."""
    return "".join(f"\\{c}" if c in "[]{}*?\\" else c for c in str(path))
