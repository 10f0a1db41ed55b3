"""Which Python runs what Spark has to ask one for: plans, tasks, and sources written in Python."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from journalfs.errors import WrongCall

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTING: Final = "spark.pyspark.python"
_VARIABLE: Final = "PYSPARK_PYTHON"


def use_own_python(spark: SparkSession) -> None:
    """Where Spark runs on this machine, have it start the Python of this process: that one has journalfs.

    It starts whatever `python3` the search path finds first, unless it is told; so a virtual environment that
    is not activated would go unseen. What somebody said stays, and so does whatever a cluster uses. Raises
    `WrongCall` where Spark has ended.
    """
    from pyspark.sql.utils import is_remote  # noqa: PLC0415 - comes with Spark

    if is_remote():
        return
    context: Any = spark.sparkContext
    if context._jsc is None or context._jsc.sc().isStopped():
        raise WrongCall("this Spark session has ended (spark.stop()): begin another, and register it anew")
    if _VARIABLE in os.environ:
        return
    if context.master.startswith("local"):
        context.pythonExec = context.getConf().get(_SETTING, sys.executable)
