"""`journalfs help`."""

from __future__ import annotations

import click


@click.command(epilog="Example: journalfs help pipeline replay")
@click.argument("words", metavar="[COMMAND [COMMAND]]", nargs=-1)
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show what COMMAND does, and its options; without COMMAND, the list of commands."""
    ctx = ctx.find_root()
    for word in words:
        if not isinstance(ctx.command, click.Group):
            raise click.UsageError(f"{ctx.command_path} has no commands below it", ctx)
        name, command, _ = ctx.command.resolve_command(ctx, [word])
        assert command is not None, "resolve_command fails where there is none"
        ctx = click.Context(command, info_name=name, parent=ctx)
    click.echo(ctx.get_help())
