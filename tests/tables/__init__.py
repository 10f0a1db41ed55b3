"""Stores that are kept in a database."""
