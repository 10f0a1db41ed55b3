"""Hadoop's committer of files, called as Spark calls it, for what one machine cannot be made to do: two
attempts at a task at the same time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_JOB = 7


class HadoopJob:
    """A job that writes files into a directory. Set up when it is made."""

    def __init__(self, spark: SparkSession, folder: Path, version: str) -> None:
        java: Any = spark.sparkContext._jvm
        self._hadoop = java.org.apache.hadoop
        self._configuration = self._hadoop.mapred.JobConf(spark.sparkContext._jsc.hadoopConfiguration())
        self._configuration.set("mapreduce.fileoutputcommitter.algorithm.version", version)
        self._folder = self._hadoop.fs.Path(str(folder))
        self._committer, self._context = self._attempt(0)
        self._committer.setupJob(self._context)

    def attempt(self, number: int) -> Attempt:
        """One more attempt at the job's only task."""
        committer, context = self._attempt(number)
        committer.setupTask(context)
        return Attempt(self._hadoop, self._configuration, committer, context)

    def commit(self) -> None:
        self._committer.commitJob(self._context)

    def _attempt(self, number: int) -> tuple[Any, Any]:
        mapreduce = self._hadoop.mapreduce
        task = mapreduce.TaskID(mapreduce.JobID("202611210000", _JOB), mapreduce.TaskType.MAP, 0)
        identity = mapreduce.TaskAttemptID(task, number)
        context = mapreduce.task.TaskAttemptContextImpl(self._configuration, identity)
        return mapreduce.lib.output.FileOutputCommitter(self._folder, context), context


class Attempt:
    def __init__(self, hadoop: Any, configuration: Any, committer: Any, context: Any) -> None:
        self._hadoop = hadoop
        self._configuration = configuration
        self._committer = committer
        self._context = context

    def create(self, name: str) -> Any:
        """A new file in the directory of this attempt, as a Java stream."""
        path = self._hadoop.fs.Path(self._committer.getWorkPath(), name)
        return path.getFileSystem(self._configuration).create(path)

    def commit(self) -> None:
        self._committer.commitTask(self._context)

    def abort(self) -> None:
        self._committer.abortTask(self._context)
