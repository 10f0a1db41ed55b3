"""A click group that knows its commands by name and imports one when it is called."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from journalfs.cli.common import nearest
from journalfs.errors import EXIT_SYSTEM, EXIT_WRONG_CALL, JournalfsError
from journalfs.showing import printable


class LazyGroup(click.Group):
    """`table` maps a name to `module:attribute` and a one-line help; `interrupted` ends the command."""

    def __init__(
        self,
        *arguments: Any,
        table: Mapping[str, tuple[str, str]],
        interrupted: Callable[[], NoReturn],
        **keywords: Any,
    ) -> None:
        super().__init__(*arguments, **keywords)
        self._table = table
        self._interrupted = interrupted

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._table:
            return None
        module, _, attribute = self._table[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), f"{cmd_name} is not a click command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands from the table alone: `--help` imports none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._table[name][1]) for name in sorted(self._table)])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with the command that is spelled most like one that is not there."""
        word = args[0]
        if word not in self._table and not ctx.resilient_parsing and not word.startswith("-"):
            ctx.fail(f"no command {word!r}{nearest(word, sorted(self._table)) or '; see journalfs help'}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """From the table alone: click would import every command, for its help."""
        names = [name for name in sorted(self._table) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self._table[name][1]) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def make_context(self, *arguments: Any, **keywords: Any) -> click.Context:
        """Read the command line. click would end with a word of its own and the code of a wrong call where
        that is interrupted, and so it would in `invoke`.
        """
        try:
            return super().make_context(*arguments, **keywords)
        except KeyboardInterrupt:
            self._interrupted()

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            self._interrupted()

    def main(self, *arguments: Any, **keywords: Any) -> Any:
        """Run, turning a failure into one line on stderr and its documented exit code.

        A wrong call ends with 1: click's own 2 means a refusal of the operating system here.
        """
        click.UsageError.exit_code = EXIT_WRONG_CALL
        if any("@" in one or "assword=" in one for one in sys.argv):
            from journalfs.process_list import hide_passwords  # noqa: PLC0415 - seldom

            hide_passwords()
        try:
            return super().main(*arguments, **keywords)
        except JournalfsError as error:
            from journalfs.config.database import without_passwords  # noqa: PLC0415 - for who fails

            print(f"journalfs: {printable(without_passwords(str(error)))}", file=sys.stderr)
            sys.exit(getattr(error, "code", error.exit_code))
        except OSError as error:
            if error.errno != errno.EPIPE:
                print(f"journalfs: {printable(_refusal(error))}", file=sys.stderr)
                _flush_or_drop()
                sys.exit(EXIT_SYSTEM)
            # The reader of our output left, as `head` does.
            _flush_or_drop()
            sys.exit(128 + 13)


def _flush_or_drop() -> None:
    """Write what is buffered, or let go of it: the interpreter would fail at its last flush."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refusal(error: OSError) -> str:
    """What the operating system refused, in one line."""
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{os.fsdecode(error.filename)}: {reason}"
