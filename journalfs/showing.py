"""Names from the disk as text.

The name of a file is bytes. Those that are no UTF-8 reach us as lone surrogates, which neither JSON nor a
terminal takes: they are shown as `\\xff`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from journalfs import door

if TYPE_CHECKING:
    import logging

_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_SHOWN_BYTES: Final = re.compile(r"\\x([89a-f][0-9a-f])")


def shown(text: str) -> str:
    """The text with what is no character escaped: a byte as `\\xff`, half of a character as `\\ud800`."""
    return text if text.isascii() else _SURROGATES.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def printable(text: str) -> str:
    """As `shown`, and nothing in it is a command to a terminal: a control character is `\\x1b`."""
    return shown(text) if text.isprintable() else _CONTROLS.sub(_escape_control, shown(text))


def _escape_control(match: re.Match[str]) -> str:
    return f"\\x{ord(match[0]):02x}"


def log_lines(layout: str) -> logging.Formatter:
    """What makes one such line of each that is logged."""
    import logging  # noqa: PLC0415 - takes long, and few log

    class Printable(logging.Formatter):
        def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - it is called so
            return printable(super().formatMessage(record))

    return Printable(layout)


def shown_in(value: object) -> object:
    """A value that becomes JSON, all its texts as `shown` gives them."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, Mapping):
        return {shown(key) if isinstance(key, str) else key: shown_in(one) for key, one in value.items()}
    return [shown_in(one) for one in value] if isinstance(value, (list, tuple)) else value


def path_of(name: str, root: Path) -> Path:
    """The file that a shown name means. One that is called like that itself comes first."""
    path = root / name
    if "\\x" not in name or door.exists(path):
        return path
    return root / _SHOWN_BYTES.sub(lambda match: chr(0xDC00 + int(match[1], 16)), name)


@contextmanager
def advancing(doing: str | None, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Takes how many bytes, or whatever `total` counts, were done, and shows people a bar, if it takes long,
    which `doing` says.
    """
    if doing is None or not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich import progress  # noqa: PLC0415 - only people look at it
    from rich.console import Console  # noqa: PLC0415

    columns = progress.Progress.get_default_columns()
    if total is None:
        text = progress.TextColumn("{task.description}")
        columns = progress.SpinnerColumn(), text, progress.DownloadColumn()
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda count: bar.advance(task, count)
