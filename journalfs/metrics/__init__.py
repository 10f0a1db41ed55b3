"""What a store measures, for Prometheus: `.journalfs/metrics` of a mount, and `journalfs metrics`.

`families` is the one list of names, `measuring` fills it from an open store. Without this package a store is
the same; nothing else imports it when a module is loaded.
"""
