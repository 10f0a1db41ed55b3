"""The `journalfs` command: a table of sub-commands, each imported only when it is called.

Start-up time is part of the interface of a shell tool, so this module imports nothing heavier than `os`
before it knows what is wanted.
"""

from __future__ import annotations

import sys

from journalfs.process_start import set_up

TYPE_CHECKING = False  # importing typing for its own constant takes longer than the answer to --version
if TYPE_CHECKING:
    from typing import Final, NoReturn

    import click

EXIT_INTERRUPTED: Final = 128 + 2
"""As if SIGINT had ended the command."""

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "backup": ("journalfs.cli.backup:backup", "Back up a store, beside a broker too."),
    "browse": ("journalfs.cli.cat:cat", "The same as cat."),
    "cat": ("journalfs.cli.cat:cat", "Print messages as lines, all or those a selector accepts."),
    "check": ("journalfs.cli.check:check", "Read everything and list what is damaged."),
    "compact": ("journalfs.cli.compact:compact", "Rewrite a store's journals into few files."),
    "completion": ("journalfs.cli.completion:completion", "Print a shell's completion script."),
    "convert": ("journalfs.cli.convert:convert", "Make a new store from a store of any kind."),
    "create": ("journalfs.cli.create:create", "Make an empty store."),
    "diff": ("journalfs.cli.diff:diff", "Say what differs between two stores, message by message."),
    "dlq": ("journalfs.cli.dlq:dlq", "Send dead letters back to where they came from."),
    "doctor": ("journalfs.cli.doctor:doctor", "Look at the machine and the disk below a store."),
    "explain": ("journalfs.cli.explain:explain", "Say why journal files stay on the disk."),
    "health": ("journalfs.cli.health:health", "Say whether a queue keeps within limits, for monitoring."),
    "help": ("journalfs.cli.help:help_", "Show what a command does."),
    "export": ("journalfs.cli.export:export", "Write a store's messages into a file."),
    "import": ("journalfs.cli.import_:import_file", "Publish the messages of an exported file."),
    "ls": ("journalfs.cli.ls:ls", "List addresses and queues, or the messages of a queue."),
    "metrics": ("journalfs.cli.metrics:metrics", "Print or serve what Prometheus is told of a store."),
    "mount": ("journalfs.cli.mount:mount", "Show a store as a filesystem."),
    "pipeline": ("journalfs.cli.pipeline:pipeline", "Archive, measure, audit and replay with Spark."),
    "print": ("journalfs.cli.print:print_records", "Print every record of a store's files."),
    "put": ("journalfs.cli.put:put", "Publish files, or standard input."),
    "recover": ("journalfs.cli.convert:recover", "Bring acknowledged messages back into a new store."),
    "repair": ("journalfs.cli.convert:repair", "Copy all that is intact into a new store."),
    "replay": ("journalfs.cli.replay:replay", "Publish once more what the history has of a range of time."),
    "restore": ("journalfs.cli.backup:restore", "Make a new store from a backup."),
    "scrub": ("journalfs.cli.scrub:scrub", "Read all of a store or backups against what it was."),
    "status": ("journalfs.cli.status:status", "Show counts and sizes of a store, address or queue."),
    "take": ("journalfs.cli.take:take", "Take messages; acknowledge each when its command succeeds."),
    "top": ("journalfs.cli.top:top", "Watch queues, messages and the disk on a terminal."),
    "tune": ("journalfs.cli.tune:tune", "Measure the disk of a store, and print settings that suit it."),
    "undo": ("journalfs.cli.undo:undo", "Bring back what was removed or taken through a mount."),
    "umount": ("journalfs.cli.mount:umount", "Unmount a store, and return when its locks are free."),
    "why": ("journalfs.cli.why:why", "Say why a mount refused something, and what to do."),
    "xa": ("journalfs.cli.xa:xa", "List prepared transactions, or decide one."),
}
"""Name -> where the click command is (`module:attribute`) and the line that `journalfs --help` shows."""

GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "Look at a store": ("ls", "status", "cat", "browse", "print", "explain", "diff"),
    "Watch a store": ("top", "health", "metrics", "doctor", "tune"),
    "Work with a mount": ("mount", "umount", "why", "undo"),
    "Publish and take": ("put", "take", "dlq", "replay", "xa", "export", "import"),
    "Check and mend a store": ("check", "repair", "recover", "scrub", "compact"),
    "Make, convert and back up stores": ("create", "convert", "backup", "restore"),
    "Work with Spark": ("pipeline",),
    "Find out about commands": ("help", "completion"),
}
"""Heading -> commands below it in `journalfs help`, most used first."""


def main() -> None:
    """Entry point."""
    set_up()
    if sys.argv[1:] in (["--version"], ["-V"]):
        from journalfs.cli.version import version_line  # noqa: PLC0415

        print(version_line())
        return
    try:
        command_group().main(prog_name="journalfs")
    except KeyboardInterrupt:
        # While what runs commands is imported; later that ends them in the same way.
        interrupted()


def interrupted() -> NoReturn:
    """End the command as shells expect of SIGINT, with a line that says so."""
    print("journalfs: interrupted", file=sys.stderr)
    sys.exit(EXIT_INTERRUPTED)


def command_group() -> click.Group:
    """The click group of all commands, for `main` and for whoever generates pages from it."""
    import click  # noqa: PLC0415  (takes longer than all of --version)

    from journalfs.cli.lazy import LazyGroup  # noqa: PLC0415

    @click.group(
        cls=LazyGroup,
        table=COMMANDS,
        groups=GROUPS,
        interrupted=interrupted,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    @click.option("-V", "--version", is_flag=True, help="Show versions and exit; give it alone.")
    def journalfs(version: bool) -> None:
        """Look into, search and mount the message stores of Apache ActiveMQ Artemis."""
        if version:
            raise click.UsageError("--version stands alone")

    return journalfs


if __name__ == "__main__":
    main()
