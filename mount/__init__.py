"""journalfs as a filesystem: names and kernel requests on one side, the store's views on the other.

Everything here speaks to `journalfs.api` and knows no byte of any file format.
"""
