"""The account of a store: what it has, what it lacks, and why, as one value that every command shows."""
