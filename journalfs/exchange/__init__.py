"""A store's messages in the forms in which brokers and other programs take them, and back: encoded lines of
records, XML, JSON lines, Parquet.
"""
