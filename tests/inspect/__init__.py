"""Deep checks and scrubbing."""
