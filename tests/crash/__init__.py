"""Pulling the plug: a store is killed at any moment, and must hold what its users were told."""
