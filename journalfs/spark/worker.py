"""What is done once in each Python process that Spark keeps for its tasks."""

from __future__ import annotations

import gc
import os
from functools import cache


@cache
def settle() -> None:
    """Take what is loaded by now out of the garbage collector's sight, in processes that Spark keeps.

    Spark collects garbage in them after each task and each plan, which looks at every object of every module:
    for as long as a small task reads.
    """
    if "SPARK_REUSE_WORKER" in os.environ:
        gc.freeze()
