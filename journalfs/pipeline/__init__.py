"""Pipelines with Spark: archive, stats, audit, dead letters, replay (docs/reference/pipelines.md).

Each is one module with one function to call, short enough to be copied and changed.
"""
