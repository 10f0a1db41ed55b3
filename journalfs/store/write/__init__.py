"""Changing a store: publishing, acknowledging, administering, on top of the two journals."""
