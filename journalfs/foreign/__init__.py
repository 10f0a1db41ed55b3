"""Registers the kinds of foreign stores (`journalfs.records.kinds`), and locks older ones for writing."""
