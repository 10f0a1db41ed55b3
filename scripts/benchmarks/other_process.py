"""Measurements that are made by a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

SHOWN_CHARS = 4000


def said_by(module: str, *arguments: object) -> Any:
    """Run a module of this package, in which Spark's workers are this Python; what its last line says in
    JSON. Raises SystemExit with the end of what it complained of.
    """
    done = subprocess.run(
        [sys.executable, "-m", f"scripts.benchmarks.{module}", *map(str, arguments)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{module}: {done.stderr[-SHOWN_CHARS:]}")
    return json.loads(done.stdout.splitlines()[-1])
