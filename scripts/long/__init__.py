"""The long tests, in pieces."""
