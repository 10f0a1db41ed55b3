"""Stores damaged on purpose: nothing crashes, nothing intact is hidden, and the damage is listed."""
