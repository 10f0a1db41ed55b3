"""`journalfs completion`: the scripts by which shells complete our words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command(epilog='Example: eval "$(journalfs completion bash)"')
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes the words of `journalfs` in SHELL.

    Packages install it where shells look for it. Without that, evaluate it in a shell's start-up file.
    """
    click.echo(script(shell), nl=False)


def script(shell: str) -> str:
    """What the shell evaluates. It asks `journalfs` itself for the words, so it is right for each version."""
    kind = get_completion_class(shell)
    assert kind is not None, shell
    made = kind(click.Command("journalfs"), {}, "journalfs", "_JOURNALFS_COMPLETE")
    # Not `source()`: for bash that starts a bash, only to see how old it is.
    return str(made.source_template % made.source_vars()).strip() + "\n"
