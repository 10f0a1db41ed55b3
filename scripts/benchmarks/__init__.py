"""Measurements of journalfs against the plain means they are compared with, taken in turn in one run."""
