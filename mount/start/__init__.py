"""A mount's beginning and end: the command's and the helper's way to it, and the place it is mounted on."""
