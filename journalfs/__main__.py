"""`python -m journalfs` is the command `journalfs`."""

from journalfs.cli.main import main

main()
