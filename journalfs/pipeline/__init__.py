"""Pipelines on messages with Spark: archive, stats, audit, dead letters, replay. See docs/PIPELINES.md.

Each is one module with one function to call, short enough to be copied and changed.
"""
